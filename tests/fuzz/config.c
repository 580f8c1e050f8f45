/* SPDX-License-Identifier: MIT */
/*
 * A configuration's text is taken, or refused with a line that says where; and a
 * key that a rule makes of a path leads back to it.
 */
#include <sys/mman.h>
#include <unistd.h>

#include "config/config.h"
#include "tests/fuzz/fuzz.h"

/* A scanner echoes what it cannot read: standard output is the program's. */
static int output(void)
{
	static int fd = -1;

	if (fd < 0) {
		fd = memfd_create("output", MFD_CLOEXEC);
		must(fd >= 0 && dup2(fd, STDOUT_FILENO) >= 0);
	}
	return fd;
}

static void ignore(void *arg, const char *text)
{
	(void)arg;
	must(text[0]);
}

static void ask(const struct dlk_config *c, const char *path)
{
	char key[DLK_KEY_MAX + 1], back[DLK_PATH_MAX];
	const struct dlk_rule *rule = dlk_config_match(c, path, strlen(path));
	ssize_t n, len;

	if (!rule)
		return;
	n = dlk_key_expand(rule, path, strlen(path), "77.00ff", key,
			   sizeof(key));
	if (n < 0)
		return;
	must((size_t)n == strlen(key));
	len = dlk_key_to_path(rule, key, (size_t)n, back, sizeof(back));
	must(len < 0 || (size_t)len < sizeof(back));
	if (len >= 0 && dlk_key_tells_path(rule->key))
		must(dlk_config_match(c, back, (size_t)len) == rule);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
	struct dlk_config *config = NULL;
	struct dlk_error err = { "" };
	char *text;

	if (n < 1)
		return 0;
	output();
	text = boxed(bytes + 1, n - 1);
	if (dlk_config_parse("fuzz", text, n - 1, bytes[0] & 1, ignore, NULL,
			     &config, &err)) {
		must(err.text[0] && !config);
		must(strncmp(err.text, "fuzz:", 5) == 0);
	} else {
		must(config && !err.text[0]);
		ask(config, "/var/lock/jobs/a");
		ask(config, "/var/lock/jobs/a%b {c}\x01");
		ask(config, "/srv/x");
		dlk_config_free(config);
	}
	free(text);
	fflush(stdout);
	must(lseek(output(), 0, SEEK_END) == 0);
	return 0;
}
