/* SPDX-License-Identifier: MIT */
/*
 * A configuration, from its file or a text in memory.
 *
 *  1. A configuration is returned whole and checked, or not at all.
 *  2. What others may write is not used for root, and warned of else.
 *  3. No copy of the text stays in memory that is given back: it may hold a
 *     password.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "config/internal.h"
#include "os/read_file.h"
#include "os/number.h"
#include "os/sys.h"

enum { HOST_ID_MAX = 150 }; /* as it stands in a token, see below */

/*
 * In a token every byte outside 0x21-0x7e, and '%', takes three; a host id
 * that was cut there would make one host of two, so it must fit.
 */
static int read_host_id(struct dlk_build *b, cfg_t *cfg)
{
	const char *id = dlk_opt_text(cfg, "host_id");
	const unsigned char *p;
	size_t len = 0;

	for (p = (const unsigned char *)(id ? id : ""); *p; p++) {
		if (*p <= ' ' || *p == 0x7f)
			return dlk_opt_fail(
				b, cfg, "host_id",
				"\"%.200s\" holds a space or a control byte",
				id);
		len += *p == '%' || *p > 0x7e ? 3 : 1;
	}
	if (len > HOST_ID_MAX)
		return dlk_opt_fail(
			b, cfg, "host_id",
			"\"%.200s\" is too long (150 bytes; '%%' and each byte "
			"that is not ASCII count as 3)",
			id);
	b->own->pub.host_id = dlk_own_text(b, id ? id : "");
	return b->own->pub.host_id ? 0 : -ENOMEM;
}

/* Shadows are made below it (DESIGN L7: never by a name of the environment). */
static int read_state_dir(struct dlk_build *b, cfg_t *cfg)
{
	const char *dir = dlk_opt_text(cfg, "state_dir");

	if (!dir)
		dir = DLK_STATE_DIR_DEFAULT;
	if (*dir != '/')
		return dlk_opt_fail(b, cfg, "state_dir",
				    "\"%.200s\" is not absolute", dir);
	if (dlk_has_control(dir))
		return dlk_opt_fail(b, cfg, "state_dir",
				    "\"%.200s\" holds a control byte", dir);
	if (strlen(dir) > DLK_STATE_DIR_MAX)
		return dlk_opt_fail(b, cfg, "state_dir",
				    "\"%.200s\" is longer than %d bytes", dir,
				    DLK_STATE_DIR_MAX);
	b->own->pub.state_dir = dlk_own_text(b, dir);
	return b->own->pub.state_dir ? 0 : -ENOMEM;
}

static int build_all(struct dlk_build *b, cfg_t *cfg)
{
	b->own->pub.file = dlk_own_text(b, b->file);
	if (!b->own->pub.file)
		return -ENOMEM;
	return read_host_id(b, cfg)
		?: read_state_dir(b, cfg)
		?: dlk_servers_build(b, cfg)
		?: dlk_rules_build(b, cfg)
		?: dlk_servers_follow(b, cfg);
}

/*
 * libconfuse holds the file's texts several times over (its scanner's buffers,
 * each value) and frees them as they are.  So its memory is an arena: a
 * password of the file does not stay in the program's heap.
 */
static int parse_prepared(struct dlk_build *b, const char *text)
{
	struct dlk_arena arena, *was;
	cfg_t *cfg = NULL;
	int ret;

	dlk_arena_init(&arena, NULL, 0, DLK_SYNTAX_MEMORY_MAX);
	was = dlk_arena_use(&arena);
	ret = dlk_syntax_parse(b, text, &cfg) ?: build_all(b, cfg);
	dlk_syntax_free(cfg);
	dlk_arena_use(was);
	dlk_arena_reset(&arena);
	return ret;
}

static int parse_text(struct dlk_build *b, const char *text, size_t len)
{
	unsigned lines[DLK_SECTIONS_MAX];
	char *copy = NULL;
	int ret;

	b->section_lines = lines;
	ret = dlk_text_prepare(b, text, len, &copy);
	if (ret)
		return ret;
	ret = parse_prepared(b, copy);
	explicit_bzero(copy, strlen(copy));
	free(copy);
	return ret;
}

static int parse(struct dlk_build *b, const char *text, size_t len,
		 struct dlk_config **out)
{
	int ret;

	*out = NULL;
	b->err->text[0] = '\0';
	b->own = calloc(1, sizeof(*b->own));
	if (!b->own)
		return dlk_no_memory(b);
	dlk_arena_init(&b->own->arena, NULL, 0, SIZE_MAX);
	ret = parse_text(b, text, len);
	if (ret) {
		dlk_config_free(&b->own->pub);
		return ret;
	}
	*out = &b->own->pub;
	return 0;
}

int dlk_config_parse(const char *file, const char *text, size_t len,
		     bool secure, dlk_warn_fn *warn, void *arg,
		     struct dlk_config **out, struct dlk_error *err)
{
	struct dlk_build b = { .file = file,
			       .secure = secure,
			       .warn = warn,
			       .warn_arg = arg,
			       .err = err };

	return parse(&b, text, len, out);
}

/*
 * In a user namespace all users that it does not map are shown as one
 * (user_namespaces(7)): the host's root, to whom /etc belongs, may be that.
 */
static bool may_be_root(uid_t uid)
{
	enum { NOBODY = 65534 }; /* /proc/sys/kernel/overflowuid */
	unsigned long count = UINT32_MAX;
	char map[256], *field = map;

	if (uid != NOBODY ||
	    dlk_slurp("/proc/self/uid_map", map, sizeof(map)) <= 0)
		return uid == 0;
	/* Of the first line: from 0, to 0, as many as there are. */
	for (int i = 0; i < 3; i++)
		count = strtoul(field, &field, 10);
	return count != UINT32_MAX;
}

/*
 * Who writes the configuration says which Redis grants root's locks, and
 * which of them are none.  Not libc's geteuid(), nor fstat(2): see sys.h.
 */
static const char *others_may_write(const struct stat *st, uid_t me)
{
	if (!may_be_root(st->st_uid) && st->st_uid != me)
		return "belongs to another user";
	if (st->st_mode & S_IWOTH)
		return "may be written by everybody";
	if ((st->st_mode & S_IWGRP) && st->st_gid != 0 &&
	    (me == 0 || st->st_gid != (gid_t)dlk_syscall(DLK_SYS_GETEGID)))
		return "may be written by its group";
	return NULL;
}

static int check_writers(struct dlk_build *b, const struct stat *st)
{
	uid_t me = (uid_t)dlk_syscall(DLK_SYS_GETEUID);
	const char *wrong = others_may_write(st, me);
	unsigned mode = st->st_mode & 07777;

	if (!wrong)
		return 0;
	if (me) {
		dlk_warn(b, 0, "%s (user %u, mode %03o)", wrong,
			 (unsigned)st->st_uid, mode);
		return 0;
	}
	dlk_fail(b, 0,
		 "%s (user %u, mode %03o), so it is not used for root (chown "
		 "root, chmod go-w)",
		 wrong, (unsigned)st->st_uid, mode);
	return -EPERM;
}

static void explain_file(struct dlk_build *b, int error)
{
	if (error == -EFBIG)
		dlk_fail(b, 0, "larger than 1 MiB");
	else if (error == -EINVAL)
		dlk_fail(b, 0, "not a regular file");
	else
		dlk_fail(b, 0, "%s", strerror(-error));
}

int dlk_config_load(const char *file, bool secure, dlk_warn_fn *warn, void *arg,
		    struct dlk_config **out, struct dlk_error *err)
{
	struct dlk_build b = { .file = file,
			       .secure = secure,
			       .warn = warn,
			       .warn_arg = arg,
			       .err = err };
	char *text = malloc(DLK_FILE_MAX + 1);
	ssize_t len = -ENOMEM;
	struct stat st = { 0 };
	int ret;

	*out = NULL;
	err->text[0] = '\0';
	if (text)
		len = dlk_read_file(file, text, DLK_FILE_MAX + 1, &st);
	if (len < 0) {
		explain_file(&b, (int)len);
		free(text);
		return len == -EFBIG ? -EINVAL : (int)len;
	}
	b.exposed = st.st_mode & S_IROTH;
	ret = check_writers(&b, &st) ?: parse(&b, text, (size_t)len, out);
	explicit_bzero(text, (size_t)len);
	free(text);
	return ret;
}
