/* SPDX-License-Identifier: MIT */
/*
 * A fork(2) that takes as long as the script wants: its parent sleeps in the kernel
 * (userfaultfd(2), UFFD_EVENT_FORK), and its child cannot be seen yet.  Then the
 * child, by the name of "born", writes a line to FILE each 10 ms.
 *
 *	forks_late FILE FIFO	a line in FIFO lets it go on
 */
#include <linux/userfaultfd.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "tests/lib/helper.h"

/* No child of the one that forks, and it has none of its descriptors. */
static void let_go(int uffd, const char *fifo)
{
	struct uffd_msg m;
	char go;

	prctl(PR_SET_NAME, "lets_go");
	if (dup2(uffd, STDIN_FILENO) < 0)
		die("dup2");
	closefrom(STDERR_FILENO + 1);
	if (read(open(fifo, O_RDONLY), &go, 1) != 1 ||
	    read(STDIN_FILENO, &m, sizeof(m)) != sizeof(m))
		die("read");
}

static void keep_helper(int uffd, const char *fifo)
{
	const pid_t child = fork();

	if (child == 0) {
		if (setsid() < 0 || fork() == 0)
			let_go(uffd, fifo);
		_exit(0);
	}
	if (child < 0 || waitpid(child, NULL, 0) < 0)
		die("fork");
}

static void make_late(int uffd)
{
	struct uffdio_api api = { .api = UFFD_API,
				  .features = UFFD_FEATURE_EVENT_FORK };
	struct uffdio_register reg = { .mode = UFFDIO_REGISTER_MODE_MISSING };
	const size_t size = (size_t)sysconf(_SC_PAGESIZE);
	void *page = mmap(NULL, size, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (page == MAP_FAILED)
		die("mmap");
	reg.range.start = (uintptr_t)page;
	reg.range.len = size;
	if (ioctl(uffd, UFFDIO_API, &api) || ioctl(uffd, UFFDIO_REGISTER, &reg))
		die("ioctl");
}

int main(int argc, char **argv)
{
	const int uffd = (int)syscall(SYS_userfaultfd, O_CLOEXEC);
	int fd;

	if (argc != 3)
		return 64;
	if (uffd < 0)
		die("userfaultfd");
	fd = open(argv[1], O_WRONLY | O_CREAT | O_APPEND, 0666);
	if (fd < 0)
		die(argv[1]);
	keep_helper(uffd, argv[2]);
	make_late(uffd);
	if (fork() == 0)
		prctl(PR_SET_NAME, "born");
	else
		pause();
	while (write(fd, "x\n", 2) == 2)
		pause_ms(10);
	return 1;
}
