/* SPDX-License-Identifier: MIT */
/* What the configuration itself tells; see doctor.h. */
#include <string.h>
#include <sys/stat.h>

#include "tools/common.h"
#include "tools/doctor.h"

/* (It may be the root of a share.) */
static void find_rule(struct doctor *d, const struct dlk_rule *rule)
{
	const char *why = "no lock is managed by it";
	const char *remedy =
		"make the directory, or correct the prefix; "
		"dlockctl explain PATH tells which rule a file has";
	struct stat st = { 0 };

	doctor_looks("whether %s is a directory", rule->prefix);
	stat(rule->prefix, &st);
	if (st.st_mode && !S_ISDIR(st.st_mode)) {
		why = "it ends in '/' and so is a directory's, but a file is "
		      "there";
	} else if (!dlk_rule_is_directory(rule) && S_ISDIR(st.st_mode)) {
		why = "it has no '/' at its end and so is a file's, but a "
		      "directory is there";
		remedy = "write the '/' at its end";
	}
	doctor_find(
		d, DOCTOR_WARNING, why, remedy,
		"%s:%d: path \"%s\" covers nothing that exists (it leads to "
		"\"%s\")",
		d->config->file, rule->line, rule->prefix, rule->place);
}

void doctor_rules(struct doctor *d)
{
	if (!d->config->n_rules)
		doctor_find(d, DOCTOR_CRITICAL,
			    "no lock is managed, all hold on this host only",
			    "add a path section (dlock.conf(5), EXAMPLES)",
			    "%s has no path section", d->config->file);
	for (unsigned i = 0; i < d->config->n_rules; i++)
		if (!d->config->rules[i].there)
			find_rule(d, &d->config->rules[i]);
}

/* --- templates ------------------------------------------------------------ */

/* In a key by inode two prefixes of one file system are no accident. */
static bool one_file_system(const struct dlk_rule *a, const struct dlk_rule *b)
{
	struct stat x, y;

	return stat(a->place, &x) == 0 && stat(b->place, &y) == 0 &&
	       x.st_dev == y.st_dev;
}

static bool has_whole_path(const char *key)
{
	for (const char *p = key; (p = strchr(p, '%')); p += 2)
		if (p[1] == 'p')
			return true;
	return false;
}

static bool may_collide(const struct dlk_rule *a, const struct dlk_rule *b)
{
	if (strcmp(a->key, b->key) != 0 || has_whole_path(a->key) ||
	    !tool_same_server(a->redis->endpoints, b->redis->endpoints))
		return false;
	return !a->by_inode || !one_file_system(a, b);
}

/* A prefix may be in a share. */
void doctor_templates(struct doctor *d)
{
	const struct dlk_config *config = d->config;

	for (unsigned i = 0; i < config->n_rules; i++)
		for (unsigned k = 0; k < i; k++) {
			const struct dlk_rule *a = &config->rules[i];
			const struct dlk_rule *b = &config->rules[k];

			if (!may_collide(a, b))
				continue;
			doctor_find(d, DOCTOR_WARNING,
				    "files of both can have one key, and then "
				    "exclude each other though they are two",
				    "give each a key of its own, such as "
				    "\"dlock:NAME:%r\"",
				    "%s:%d and :%d: path \"%s\" and path "
				    "\"%s\" have one template, \"%s\"",
				    config->file, b->line, a->line, b->prefix,
				    a->prefix, a->key);
		}
}
