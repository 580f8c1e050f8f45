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
#include <sys/wait.h>
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

/* What $LIB is to this dynamic linker: its own word, since glibc 2.33, or "". */
static void word_of(const char *loader, char word[64])
{
	char line[256];
	FILE *f = NULL;
	int fds[2];
	pid_t pid = pipe2(fds, O_CLOEXEC) ? -1 : fork();

	*word = '\0';
	if (!pid) {
		dup2(fds[1], STDOUT_FILENO);
		dup2(open("/dev/null", O_WRONLY), STDERR_FILENO);
		execl(loader, loader, "--list-diagnostics", (char *)NULL);
		_exit(DLK_EXIT_CANNOT);
	}
	if (pid < 0)
		return;
	close(fds[1]);
	f = fdopen(fds[0], "r");
	while (f && fgets(line, sizeof(line), f))
		sscanf(line, "dl_dst_lib=\"%63[^\"]\"", word);
	if (f)
		fclose(f);
	waitpid(pid, NULL, 0);
}

bool tool_library_of(const char *loader, uint8_t class, struct elf_facts *facts)
{
	char word[64], file[DLK_PATH_MAX];

	if (!*loader)
		loader = class == ELFCLASS32 ? "/lib/ld-linux.so.2"
					     : "/lib64/ld-linux-x86-64.so.2";
	if (access(loader, X_OK))
		return false;
	word_of(loader, word);
	snprintf(file, sizeof(file), DLK_PREFIX "/%s" LIBRARY, word);
	return *word && tool_inspect(file, facts) && facts->class == class;
}
