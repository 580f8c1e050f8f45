/* SPDX-License-Identifier: MIT */
/*
 * The library for 32-bit programs, beside the one for 64-bit ones.
 *
 * What $LIB stands for is the dynamic linker's to say (ld.so(8)): one path names
 * both libraries, and a program of either size finds its own, without a word
 * about the other.
 */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/common.h"
#include "tools/common_elf.h"

#define LIBRARY "/dlock/libdlock-preload.so"

int tool_map(const char *file, void **image, size_t *size)
{
	int fd = open(file, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	struct stat st = { 0 };
	int err = fd < 0 || fstat(fd, &st) ? -errno : 0;

	*size = err || st.st_size < 0 ? 0 : (size_t)st.st_size;
	if (*size) {
		*image = mmap(NULL, *size, PROT_READ, MAP_PRIVATE, fd, 0);
		err = *image == MAP_FAILED ? -errno : 0;
	}
	if (fd >= 0)
		close(fd);
	return err;
}

bool tool_inspect(const char *file, struct elf_facts *facts)
{
	void *image;
	size_t size;

	if (tool_map(file, &image, &size) || !size)
		return false;
	elf_inspect(image, size, facts);
	munmap(image, size);
	return facts->is_elf;
}

/* As Debian's two dynamic linkers for i386 have it, and as others do. */
bool tool_library32(struct elf_facts *facts)
{
	static const char *const words[] = { "lib32", "lib/i386-linux-gnu",
					     "lib" };
	char file[DLK_PATH_MAX];

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		snprintf(file, sizeof(file), DLK_PREFIX "/%s" LIBRARY,
			 words[i]);
		if (tool_inspect(file, facts) && facts->class == ELFCLASS32)
			return true;
	}
	return false;
}
