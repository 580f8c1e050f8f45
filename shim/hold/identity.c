/* SPDX-License-Identifier: MIT */
/*
 * Who we are, as it stands in a token.
 *
 * HOST is the running kernel's boot id: two containers of one kernel share
 * its locks, two kernels never do.  Only the short command name is told, not
 * its arguments, which may be secrets.
 */

#include "hold/identity.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "os/file_id.h"
#include "os/proc.h"
#include "os/sys.h"
#include "hold/self.h"
#include "model/text.h"
#include "model/token.h"

/* Read once a process; the same bytes whoever writes them, so no mutex.  What could
 * not be read is not kept. */
static struct {
	_Atomic bool known;
	int64_t offset_ns;        /* of the time namespace's CLOCK_BOOTTIME */
	_Atomic uint64_t process; /* its tokens begin with it */
	char host[DLK_WORD_MAX];
	char hostname[DLK_WORD_MAX];
	char command[DLK_WORD_MAX];
} me;

void dlk_identity_forget(void)
{
	atomic_store(&me.known, false);
	atomic_store(&me.process, 0);
}

static bool is_lacking(ssize_t err)
{
	return err == -EMFILE || err == -ENFILE || err == -ENOMEM;
}

/*
 * By a HOST that two of them have in common each would be dead to the other (DESIGN
 * L3), for of one image they have the same files, too:
 *
 *	one host		Redis			another, of the same image
 *	its kernel grants
 *	ask ->			granted
 *							its kernel grants, later
 *						<-	ask, with that as proof
 *				granted: the first one
 *				has no holder any more
 *
 * So where the boot id is not to be read (proc(5), subset=pid; Landlock) there is
 * none, unless host_id tells them apart.
 */
static int learn_host(void)
{
	char id[64], word[DLK_WORD_MAX], host[DLK_WORD_MAX] = "";
	const char *host_id = dlk_self.config->host_id;
	struct dlk_text t;
	const ssize_t n =
		dlk_slurp("/proc/sys/kernel/random/boot_id", id, sizeof(id));

	if (is_lacking(n))
		return (int)n;
	if (n < 36 && !host_id[0])
		return -EREMOTEIO;
	if (n < 36)
		memcpy(id, "unknown", sizeof("unknown"));
	dlk_text_init(&t, host, sizeof(host));
	for (const char *p = id; *p && *p != '\n'; p++)
		if (*p != '-')
			dlk_text_bytes(&t, p, 1);
	if (host_id[0]) {
		dlk_word(word, sizeof(word) - 40, host_id, strlen(host_id));
		dlk_text_strs(&t, ":", word, NULL);
	}
	/* (At once: another thread may read it already.) */
	memcpy(me.host, host, sizeof(host));
	return 0;
}

/* "boottime  <seconds> <nanoseconds>" (time_namespaces(7)) */
static int64_t parse_offset(const char *text)
{
	const char *at = strstr(text, "boottime");
	uint64_t sec, nsec;
	bool minus;

	if (!at)
		return 0;
	at += strlen("boottime");
	at += strspn(at, " \t");
	minus = *at == '-';
	at = dlk_number(at + minus, 10, &sec);
	if (!at || !dlk_number(at + strspn(at, " \t"), 10, &nsec))
		return 0;
	return (minus ? -(int64_t)sec : (int64_t)sec) * 1000000000 +
	       (int64_t)nsec;
}

/* (A kernel without such namespaces has no such file.) */
static int learn_offset(void)
{
	char text[256];
	const ssize_t n =
		dlk_slurp("/proc/self/timens_offsets", text, sizeof(text));

	if (is_lacking(n))
		return (int)n;
	me.offset_ns = n < 0 ? 0 : parse_offset(text);
	return 0;
}

/* When it began, in nanoseconds: the 22nd field of /proc/PID/stat (proc(5)). */
static bool read_beginning(uint64_t *ns)
{
	const uint64_t tick = 1000000000U / (uint64_t)sysconf(_SC_CLK_TCK);
	char text[1024];

	if (dlk_slurp("/proc/self/stat", text, sizeof(text)) <= 0 ||
	    !dlk_number(dlk_stat_field(text, 22), 10, ns))
		return false;
	*ns = *ns * tick - (uint64_t)me.offset_ns;
	return true;
}

/*
 * The process is the same in each program that it becomes by execve(2), which
 * keeps its POSIX locks (record.c): so its name follows from its number, of
 * which namespace that is, and when it began; for numbers come again.  0 where
 * that cannot be read.
 */
static uint64_t name_of_process(void)
{
	char name[DLK_WORD_MAX + 96];
	struct dlk_text t;
	struct stat ns;
	uint64_t began;

	if (strncmp(me.host, "unknown", 7) == 0 || !read_beginning(&began) ||
	    dlk_stat("/proc/self/ns/pid", &ns, 0) < 0)
		return 0;
	dlk_text_init(&t, name, sizeof(name));
	dlk_text_strs(&t, me.host, " ", NULL);
	dlk_text_u64(&t, ns.st_ino, 1);
	dlk_text_str(&t, " ");
	dlk_text_u64(&t, (uint64_t)dlk_pid(), 1);
	dlk_text_str(&t, " ");
	dlk_text_u64(&t, began, 1);
	return dlk_hash(name, t.len);
}

/* Whoever is first decides. */
static void learn_process(void)
{
	uint64_t none = 0, process = name_of_process();

	if (!process)
		dlk_random(&process, sizeof(process));
	atomic_compare_exchange_strong(&me.process, &none, process | 1);
}

/* 0, or as dlk_identity_token(). */
static int learn(void)
{
	struct utsname uts;
	char comm[32] = "";
	ssize_t n;
	const int err = learn_host() ?: learn_offset();

	if (err)
		return err;
	if (uname(&uts) < 0)
		uts.nodename[0] = '\0';
	dlk_word(me.hostname, sizeof(me.hostname), uts.nodename,
		 strlen(uts.nodename));
	n = dlk_slurp("/proc/self/comm", comm, sizeof(comm));
	dlk_word(me.command, sizeof(me.command), comm,
		 n > 0 ? (size_t)n - 1 : 0);
	learn_process();
	atomic_store(&me.known, true);
	return 0;
}

void dlk_identity_process(char digits[17])
{
	struct dlk_text t;
	uint64_t process;

	if (!atomic_load(&me.known))
		learn();
	process = atomic_load(&me.process);
	dlk_text_init(&t, digits, 17);
	dlk_text_hex_bytes(&t, &process, sizeof(process));
}

uint64_t dlk_identity_since(uint64_t now_ns)
{
	if (!atomic_load(&me.known))
		learn();
	return now_ns - (uint64_t)me.offset_ns;
}

ssize_t dlk_identity_token(int fd, const struct dlk_file *file,
			   const char *path, uint64_t since_ns,
			   bool process_owns, char *buf, size_t size)
{
	struct dlk_token token;
	struct dlk_text t;
	uint8_t bytes[16];
	uint64_t process;
	const int err = atomic_load(&me.known) ? 0 : learn();

	if (err)
		return err;
	token.since_ns = dlk_identity_since(since_ns);
	dlk_random(bytes, sizeof(bytes));
	process = atomic_load(&me.process);
	if (process_owns)
		memcpy(bytes, &process, sizeof(process));
	dlk_token_random(&token, bytes);
	memcpy(token.host, me.host, sizeof(token.host));
	memcpy(token.hostname, me.hostname, sizeof(token.hostname));
	memcpy(token.command, me.command, sizeof(token.command));
	dlk_text_init(&t, token.file, sizeof(token.file));
	dlk_text_hex(&t, file->dev);
	dlk_text_str(&t, ":");
	dlk_text_hex(&t, file->ino);
	dlk_text_str(&t, ":");
	dlk_handle_put(&t, fd);
	token.path[0] = '\0';
	if (path)
		dlk_word_path(token.path, sizeof(token.path), path,
			      strlen(path));
	token.pid = (uint32_t)dlk_self.pid;
	return dlk_token_format(&token, buf, size);
}
