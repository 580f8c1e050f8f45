/* SPDX-License-Identifier: MIT */
/*
 * stdin, stdout and stderr as libconfuse.a means them.
 *
 * The preload library contains libconfuse: with a libconfuse.so it could not
 * be loaded after a chroot(2) or into a container that lacks one, and each
 * program's start would pay for another library (80 us of 285 [m]).  Debian's
 * archive is built for executables, which may take a copy of libc's variables;
 * a library may not, so the Makefile gives them these names.
 */
#include "config/internal.h"

FILE *dlk_stdin, *dlk_stdout, *dlk_stderr;

void dlk_syntax_streams(void)
{
	dlk_stdin = stdin;
	dlk_stdout = stdout;
	dlk_stderr = stderr;
}
