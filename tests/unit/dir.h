/* SPDX-License-Identifier: MIT */
/* A directory of a test's own: the setup and the teardown of its group. */
#ifndef DLK_UNIT_DIR_H
#define DLK_UNIT_DIR_H

#include <fcntl.h>
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

/* File n of it. */
static inline int opened(unsigned n)
{
	char name[64];
	int fd;

	snprintf(name, sizeof(name), "%s/%u", dir, n);
	fd = open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	return fd;
}

#endif
