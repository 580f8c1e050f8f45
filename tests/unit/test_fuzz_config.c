/* SPDX-License-Identifier: MIT */
/*
 * Mutated texts of the sample: each is taken, or refused with a reason; the
 * process survives, prints nothing to standard output and (under the address
 * sanitizer) leaks nothing.  The generator is seeded: every run is alike.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config/config.h"

enum { ROUNDS = 20000, SAMPLE_MAX = 8192, TEXT_MAX = 3 * SAMPLE_MAX };

struct mutant {
	uint64_t seed;
	size_t len;
	char text[TEXT_MAX];
};

static uint32_t pick(struct mutant *m, size_t below)
{
	m->seed = m->seed * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)((m->seed >> 33) % below);
}

/* The sample, its commented options switched on where they agree. */
static size_t load_sample(char *text)
{
	static const char *const options[] = {
		"mode",          "connect_timeout",
		"restart_delay", "replicas",
		"key",           "ttl",
		"timeout",       "on_lost",
		"unreachable",   "local",
		"coherence",     "fair",
		"interop",       "exclude",
		"host_id",
	};
	FILE *f = fopen("config/dlock.conf", "r");
	char line[64];
	size_t len, i;

	assert_non_null(f);
	len = fread(text, 1, SAMPLE_MAX - 1, f);
	fclose(f);
	text[len] = '\0';
	assert_true(len > 0 && len < SAMPLE_MAX - 1);
	for (i = 0; i < sizeof(options) / sizeof(*options); i++) {
		char *at;

		snprintf(line, sizeof(line), "# %s = ", options[i]);
		at = strstr(text, line);
		assert_non_null(at);
		*at = ' ';
	}
	return len;
}

static void splice(struct mutant *m, size_t at, size_t cut, const char *bytes,
		   size_t n)
{
	if (cut > m->len - at)
		cut = m->len - at;
	if (m->len - cut + n > sizeof(m->text))
		return;
	memmove(m->text + at + n, m->text + at + cut, m->len - at - cut);
	memcpy(m->text + at, bytes, n);
	m->len += n - cut;
}

static void mutate(struct mutant *m)
{
	static const char *const words[] = {
		"\"",
		"'",
		"\\",
		"{",
		"}",
		"=",
		"+=",
		",",
		"#",
		"/*",
		"*/",
		"//",
		"${",
		"${HOME}",
		"${NO:-x}",
		"}",
		"(",
		")",
		"\n",
		"\\0",
		"\\x",
		"\\777",
		"\r",
		"*",
		"redis \"main\" {",
		"path \"/\" {",
		"url = x",
		"\"\" = 1",
		"path|url = 1",
		"\"redis=main|url\"=1",
		"host_id = ''",
		"urls += { a, b }",
		"exclude = {}",
		"'\\",
		"ttl = 99999999999999999999s",
		"%",
		"[",
		"\xff",
		"\x01",
	};
	char copy[64];
	size_t at, n;
	const char *word = words[pick(m, sizeof(words) / sizeof(*words))];

	if (!m->len)
		return;
	at = pick(m, m->len);
	switch (pick(m, 6)) {
	case 0:
		m->text[at] = (char)pick(m, 256);
		break;
	case 1:
		splice(m, at, 0, word, strlen(word));
		break;
	case 2:
		splice(m, at, strlen(word), word, strlen(word));
		break;
	case 3:
		splice(m, at, 1 + pick(m, 40), "", 0);
		break;
	case 4:
		n = m->len - at < sizeof(copy) ? m->len - at : sizeof(copy);
		memcpy(copy, m->text + at, n);
		splice(m, pick(m, m->len), 0, copy, n);
		break;
	default:
		if (pick(m, 8) == 0)
			m->len = at;
	}
}

static void ignore_warning(void *arg, const char *text)
{
	unsigned *n = arg;

	assert_true(text[0]);
	(*n)++;
}

/* 1 taken, 0 refused. */
static int parse(struct mutant *m)
{
	struct dlk_config *config = NULL;
	struct dlk_error err = { "" };
	unsigned warnings = 0;
	int ret = dlk_config_parse("fuzz", m->text, m->len, pick(m, 8) == 0,
				   ignore_warning, &warnings, &config, &err);

	if (ret) {
		assert_true(ret < 0 && err.text[0] && !config);
		assert_memory_equal(err.text, "fuzz:", 5);
		return 0;
	}
	assert_non_null(config);
	assert_false(err.text[0]);
	dlk_config_match(config, "/var/lock/jobs/a", 16);
	dlk_config_free(config);
	return 1;
}

static int run_rounds(void)
{
	static char sample[SAMPLE_MAX];
	static struct mutant m = { .seed = 7 };
	size_t len = load_sample(sample);
	int round, taken = 0;

	for (round = 0; round < ROUNDS; round++) {
		uint32_t n = 1 + pick(&m, 4);

		memcpy(m.text, sample, len);
		m.len = len;
		while (n--)
			mutate(&m);
		taken += parse(&m);
	}
	return taken;
}

/* Standard output goes to a file meanwhile: a scanner's echo is seen there. */
static void every_mutant_is_taken_or_refused(void **state)
{
	FILE *out = tmpfile();
	int saved, taken;
	struct stat st;

	(void)state;
	assert_non_null(out);
	fflush(stdout);
	saved = dup(STDOUT_FILENO);
	assert_true(saved >= 0 && dup2(fileno(out), STDOUT_FILENO) >= 0);
	taken = run_rounds();
	fflush(stdout);
	assert_true(dup2(saved, STDOUT_FILENO) >= 0);
	close(saved);
	assert_int_equal(fstat(fileno(out), &st), 0);
	fclose(out);
	assert_int_equal(st.st_size, 0);
	/* Neither side may be the only one that is tried. */
	assert_in_range(taken, ROUNDS / 50, ROUNDS - ROUNDS / 50);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_mutant_is_taken_or_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
