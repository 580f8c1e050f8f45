/* SPDX-License-Identifier: MIT */
/* A directory of a test's own: the setup and the teardown of its group. */
#ifndef DLK_UNIT_DIR_H
#define DLK_UNIT_DIR_H

#include <stdio.h>
#include <stdlib.h>

static char dir[] = "/tmp/dlock-unit-XXXXXX";

static int make_dir(void **state)
{
	(void)state;
	return mkdtemp(dir) ? 0 : -1;
}

static int remove_dir(void **state)
{
	char command[64];

	(void)state;
	snprintf(command, sizeof(command), "rm -rf %s", dir);
	return system(command);
}

#endif
