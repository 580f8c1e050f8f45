/* SPDX-License-Identifier: MIT */
/* What is locked on this host alone; see local.h. */
#include "hold/local.h"

#include <pthread.h>
#include <stdatomic.h>

#include "os/guard.h"
#include "os/sys.h"

/*
 * NOTES: where two files have one place the later one has it, and of all others
 * there is no telling.  TIMES: of a server that was waited for in vain nothing
 * is waited for so many timeouts, but each call asks once.
 */
enum { NOTES = 256, TIMES = 8 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct {
	struct dlk_file file;
	bool used, said;
} notes[NOTES];
static bool some_forgotten;
static _Atomic bool any;

static unsigned place_of(const struct dlk_file *file)
{
	return (unsigned)((dlk_node(file) ^ file->dev) % NOTES);
}

/* (mutex) */
static bool has_note(const struct dlk_file *file)
{
	const unsigned i = place_of(file);

	return notes[i].used && dlk_same_file(&notes[i].file, file);
}

void dlk_local_waited(struct dlk_store *s, uint64_t timeout_ns)
{
	if (timeout_ns)
		atomic_store(&s->unreached_until_ns,
			     dlk_now_ns() + TIMES * timeout_ns);
}

bool dlk_local_begin(const struct dlk_file *file)
{
	const unsigned i = place_of(file);
	bool news;

	pthread_mutex_lock(&mutex);
	if (!has_note(file)) {
		some_forgotten |= notes[i].used;
		notes[i].file = *file;
		notes[i].said = false;
	}
	news = !notes[i].said;
	notes[i].used = notes[i].said = true;
	pthread_mutex_unlock(&mutex);
	atomic_store(&any, true);
	return news;
}

bool dlk_local_end(const struct dlk_file *file, struct dlk_store *s)
{
	bool said;

	/* (Who has only asked questions has waited as well.) */
	atomic_store(&s->unreached_until_ns, 0);
	if (!atomic_load(&any))
		return false;
	DLK_GUARD(&mutex);
	said = has_note(file) && notes[place_of(file)].said;
	if (said)
		notes[place_of(file)].said = false;
	return said;
}

bool dlk_local_perhaps(const struct dlk_file *file)
{
	if (!atomic_load(&any))
		return false;
	DLK_GUARD(&mutex);
	return some_forgotten || has_note(file);
}

uint64_t dlk_local_timeout_ns(const struct dlk_store *s, uint64_t timeout_ns)
{
	return dlk_now_ns() < atomic_load(&s->unreached_until_ns) ? 0
								  : timeout_ns;
}

/* What a child shares with us is another's, for it (DESIGN L2). */
void dlk_local_forget(void)
{
	pthread_mutex_init(&mutex, NULL);
	for (unsigned i = 0; i < NOTES; i++)
		notes[i].used = false;
	some_forgotten = false;
	atomic_store(&any, false);
}
