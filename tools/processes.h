/* SPDX-License-Identifier: MIT */
/* The processes of this host, as far as /proc shows them. */
#ifndef DLK_TOOLS_PROCESSES_H
#define DLK_TOOLS_PROCESSES_H

#include <dirent.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "os/sys.h"

/* The next name in a directory; NULL: there is none, and *d is closed, too. */
const char *names_next(DIR **d);
/* The same of "/proc": the next process, or 0. */
unsigned proc_next(DIR **d);

/* "/proc/PID/NAME", until the next call. */
const char *proc_file(unsigned pid, const char *name);
/* Its name, without the newline; false: there is no such process. */
bool proc_command(unsigned pid, char *name, size_t size);
/* When it began, as dlk_now_ns() counts; 0: not known. */
uint64_t proc_began_ns(unsigned pid);
/* Each line of the fdinfo of all its descriptors, where its locks are. */
void proc_each_fdinfo(unsigned pid, dlk_line_fn *fn, void *arg);
/* Its command line, blanks between the words. */
void proc_line(unsigned pid, char *line, size_t size);

#endif
