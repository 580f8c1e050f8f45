/* SPDX-License-Identifier: MIT */
/*
 * What dlock has to say, a line each: DLOCK_LOG=LEVEL or LEVEL:FILE, where
 * LEVEL is error, warning (the default), info or debug.
 *
 * The file is opened once, when the process begins, with the rights that it has
 * then; it must be a regular one, and no symbolic link.  Without a file, or
 * where it cannot be written, a line goes to standard error as it was when the
 * process began.  If that was closed or /dev/null, where nobody reads, or if
 * descriptor 2 is another file by now (a daemon closed it and opened its
 * database, L7), or its reader does not read: to the system log's socket, with
 * the program's name, its number and the level.  A line is one write, needs no
 * malloc and no stdio, and is async-signal-safe; errno is left alone.
 */
#ifndef DLK_LOG_H
#define DLK_LOG_H

#include <stdbool.h>

#include "model/text.h"

enum dlk_level { DLK_ERROR, DLK_WARNING, DLK_INFO, DLK_DEBUG };

/*
 * `setting` is DLOCK_LOG's value or NULL; kept by copy.  `use_stderr`: false
 * in the keeper, which has no terminal.
 */
void dlk_log_init(const char *setting, bool use_stderr);
/* The file of the setting: 0, or -errno, which dlk_log_complain() says. */
int dlk_log_open(void);
/* In the keeper: it was opened as this descriptor, by who started it. */
void dlk_log_adopt(int fd);
/* Its descriptor, an own one (sys.h), or -1; and is this it? */
int dlk_log_fd(void);
bool dlk_log_is_own(int fd);
/* In a child of fork(2), which has the descriptor too. */
void dlk_log_forked(void);
/* What is wrong with the setting is said once, when something is locked. */
void dlk_log_complain(void);
bool dlk_log_wants(enum dlk_level level);
const char *dlk_log_setting(void);

/* A line of up to 2 KiB; begin, add text, end. */
struct dlk_line {
	struct dlk_text text;
	enum dlk_level level;
	char buf[2048];
};

void dlk_line_begin(struct dlk_line *l, enum dlk_level level);
void dlk_line_end(struct dlk_line *l);
/* The same; and the system log has it in any case, as an alert. */
void dlk_line_alarm(struct dlk_line *l);

/* One line of fixed parts, ended by NULL. */
void dlk_log(enum dlk_level level, const char *part, ...)
	__attribute__((sentinel));

#endif
