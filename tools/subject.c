/* SPDX-License-Identifier: MIT */
/* The rule and the key of a path; see subject.h. */
#include "tools/subject.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/common.h"

bool subject_key(const struct subject *s, const char *suffix,
		 char key[SUBJECT_KEY_MAX])
{
	if (s->key_len < 0 || (size_t)s->key_len + strlen(suffix) > DLK_KEY_MAX)
		return false;
	strcpy(key, s->key);
	strcat(key, suffix);
	return true;
}

bool subject_key_at(const struct subject *s, const char *suffix,
		    const struct dlk_endpoint *ep, char key[SUBJECT_KEY_MAX])
{
	return subject_key(s, suffix, key) &&
	       tool_has_key(s->rule->redis, ep, key, strlen(key));
}

/* %i of a file that is there, which is not opened for it. */
static bool find_inode(struct subject *s, char *inode)
{
	int fd, err;

	inode[0] = '\0';
	if (!dlk_key_by_inode(s->rule->key))
		return true;
	fd = open(s->path, O_PATH | O_CLOEXEC);
	if (fd < 0) {
		snprintf(s->no_inode, sizeof(s->no_inode),
			 "%s; its key follows from its inode", strerror(errno));
		return false;
	}
	err = dlk_inode_name(fd, s->rule->place_len, inode, s->no_inode);
	close(fd);
	return err == 0;
}

static void find_key(struct subject *s)
{
	char inode[DLK_INODE_MAX];

	s->key_len = -1;
	if (find_inode(s, inode))
		s->key_len =
			dlk_key_expand(s->rule, s->spelled, strlen(s->spelled),
				       inode, s->key, sizeof(s->key));
}

/* The device that the file is on, or will be: of the first parent there is. */
static dev_t find_device(const char *file)
{
	char path[DLK_PATH_MAX];
	struct stat st;

	strcpy(path, file);
	while (stat(path, &st) && strrchr(path, '/') > path)
		*strrchr(path, '/') = '\0';
	return stat(path, &st) ? 0 : st.st_dev;
}

/* As the shim does it: by where the prefixes led, and by where they lead. */
static int find_rule(struct subject *s)
{
	static struct dlk_search search;
	int err = 0;

	strcpy(s->spelled, s->path);
	s->rule = dlk_config_match(s->config, s->path, strlen(s->path));
	if (dlk_config_may_follow(s->config, s->rule))
		err = dlk_config_follow(s->config, find_device(s->path),
					s->spelled, sizeof(s->spelled), &search,
					&s->rule);
	/* (Too long a one is left as it is, as the shim does.) */
	if (!err && s->rule)
		dlk_rule_spell(s->rule, s->spelled, strlen(s->spelled),
			       s->spelled, sizeof(s->spelled));
	return err;
}

int subject_find(const struct dlk_config *config, const char *given,
		 struct subject *s)
{
	int err = tool_resolve(given, s->path);

	s->config = config;
	s->given = given;
	if (!err)
		err = find_rule(s);
	if (err)
		return tool_fail(DLK_EXIT_NOTHING, "%s: %s", given,
				 strerror(-err));
	if (s->rule)
		find_key(s);
	return 0;
}

int subject_find_managed(const struct dlk_config *config, const char *given,
			 struct subject *s)
{
	int rc = subject_find(config, given, s);

	if (!rc && !s->rule)
		rc = tool_fail(DLK_EXIT_NOTHING,
			       "%s: no rule manages it, its locks stay local",
			       s->path);
	if (!rc && s->key_len < 0)
		rc = tool_fail(DLK_EXIT_NOTHING, "%s: it has no key: %s",
			       s->path,
			       s->no_inode[0] ? s->no_inode : "too long a one");
	return rc;
}
