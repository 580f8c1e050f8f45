/* SPDX-License-Identifier: MIT */
/* Lines of /proc/PID/mountinfo: the documented form, the machine's own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "os/mounts.h"
#include "os/sys.h"
#include "model/mountinfo.h"

static void a_line_has_device_point_type_and_options(void **state)
{
	struct dlk_mount_line m;

	(void)state;
	assert_true(dlk_mount_line("36 35 98:5 /mnt1 /mnt2 rw,noatime master:1 "
				   "- ext3 /dev/root rw,errors=continue",
				   &m));
	assert_int_equal(m.id, 36);
	assert_int_equal(m.major, 98);
	assert_int_equal(m.minor, 5);
	assert_int_equal(m.point_len, strlen("/mnt2"));
	assert_string_equal(m.type, "ext3");
	assert_string_equal(m.options, "rw,errors=continue");
}

static void no_field_may_be_many(void **state)
{
	struct dlk_mount_line m;

	(void)state;
	assert_true(dlk_mount_line("1 0 0:45 / / rw - fuse.sshfs h:/ rw", &m));
	assert_string_equal(m.type, "fuse.sshfs");
	assert_true(dlk_mount_line("1 0 0:45 / /a rw shared:1 master:2 "
				   "propagate_from:3 - nfs4 h:/x rw",
				   &m));
	assert_string_equal(m.type, "nfs4");
}

static void an_escape_is_one_byte(void **state)
{
	struct dlk_mount_line m;
	char point[16];

	(void)state;
	assert_true(dlk_mount_line("1 0 0:45 /a\\040b /mnt/a\\040b\\134 rw - "
				   "nfs h:/a\\040-\\040b rw",
				   &m));
	assert_int_equal(m.point_len, strlen("/mnt/a b\\"));
	assert_true(dlk_mount_point(&m, point, sizeof(point)));
	assert_string_equal(point, "/mnt/a b\\");
	assert_false(dlk_mount_point(&m, point, m.point_len));
	assert_true(dlk_mount_point(&m, point, m.point_len + 1));
	assert_string_equal(m.type, "nfs");
}

static void what_is_cut_still_has_its_type(void **state)
{
	struct dlk_mount_line m;

	(void)state;
	assert_true(dlk_mount_line("1 0 0:45 / /a rw - overlay", &m));
	assert_string_equal(m.type, "overlay");
	assert_string_equal(m.options, "");
	assert_false(dlk_mount_line("1 0 0:45 / /a rw", &m));
	assert_false(dlk_mount_line("1 0 0:45", &m));
	assert_false(dlk_mount_line("", &m));
	assert_false(dlk_mount_line("x", &m));
}

static void an_option_is_a_whole_word(void **state)
{
	(void)state;
	assert_true(dlk_mount_option("serverino", "serverino"));
	assert_true(dlk_mount_option("rw,serverino,x=1", "serverino"));
	assert_true(dlk_mount_option("rw,serverino", "serverino"));
	assert_false(dlk_mount_option("rw,noserverino", "serverino"));
	assert_false(dlk_mount_option("serverino=1", "serverino"));
	assert_false(dlk_mount_option("", "serverino"));
}

static bool count(void *arg, const char *line)
{
	unsigned *n = arg;

	/* Of a long line the beginning, once. */
	assert_true(*n != 1 || strlen(line) == 4095);
	++*n;
	return *n < 4;
}

static void a_long_line_is_one_line(void **state)
{
	char name[] = "/tmp/dlock-lines.XXXXXX", text[10000];
	int fd = mkstemp(name);
	unsigned n = 0;

	(void)state;
	assert_true(fd >= 0);
	memset(text, 'x', sizeof(text));
	text[5] = '\n';
	strcpy(text + 9990, "\na\nb\nc\nd\n");
	assert_int_equal(write(fd, text, 9999), 9999);
	close(fd);
	assert_true(dlk_each_line(name, count, &n));
	assert_int_equal(n, 4);
	assert_false(dlk_each_line("/nonexistent", count, &n));
	unlink(name);
}

/* A directory is opened as a file is, and fails to be read as one. */
static void what_cannot_be_read_is_no_empty_file(void **state)
{
	char text[64];
	unsigned n = 0;

	(void)state;
	assert_int_equal(dlk_slurp("/", text, sizeof(text)), -EISDIR);
	assert_false(dlk_each_line("/", count, &n));
	assert_int_equal(n, 0);
}

/* Against statfs(2) and stat(2). */
static void the_kernel_says_so(void **state)
{
	int fd = open("/proc/self/status", O_RDONLY);
	struct stat st, known;
	struct dlk_mount mount;

	(void)state;
	assert_int_equal(fstat(fd, &st), 0);
	assert_true(dlk_mount_of(fd, &mount));
	assert_string_equal(mount.type, "proc");
	assert_int_equal(mount.dev, st.st_dev);
	assert_int_equal(mount.point_len, strlen("/proc"));
	assert_int_equal(dlk_fs_of(fd, st.st_dev), DLK_FS_LOCAL);
	/* One with a device of its own is not looked at. */
	assert_int_equal(dlk_fs_of(-1, makedev(8, 1)), DLK_FS_LOCAL);
	assert_int_equal(dlk_file_known(fd, &known), 0);
	assert_int_equal(known.st_dev, st.st_dev);
	assert_int_equal(known.st_ino, st.st_ino);
	assert_int_equal(known.st_mode, st.st_mode);
	close(fd);
	assert_int_equal(dlk_file_known(fd, &known), -1);
	assert_false(dlk_mount_of(fd, &mount));
}

static bool note_point(void *seen, const char *point)
{
	*(bool *)seen = strcmp(point, "/proc/") == 0;
	return !*(bool *)seen;
}

static bool note_any_point(void *seen, const char *point)
{
	(void)point;
	*(bool *)seen = true;
	return false;
}

static void a_device_has_its_mount_points(void **state)
{
	bool found = false;
	struct stat st;
	char point[32];

	(void)state;
	assert_int_equal(stat("/proc", &st), 0);
	dlk_mount_points(st.st_dev, point, sizeof(point), note_point, &found);
	assert_true(found);
	found = false;
	dlk_mount_points(makedev(4095, 1), point, sizeof(point), note_any_point,
			 &found);
	assert_false(found);
}

static void a_type_is_known_by_its_name(void **state)
{
	(void)state;
	assert_int_equal(dlk_fs_of_type("nfs4"), DLK_FS_CACHED);
	assert_int_equal(dlk_fs_of_type("fuse"), DLK_FS_FUSE);
	assert_int_equal(dlk_fs_of_type("fuse.sshfs"), DLK_FS_FUSE);
	assert_int_equal(dlk_fs_of_type("tmpfs"), DLK_FS_LOCAL);
	assert_int_equal(dlk_fs_of_type("fusectl"), DLK_FS_OTHER);
	assert_int_equal(dlk_fs_of_type("nfsd"), DLK_FS_OTHER);
	assert_int_equal(dlk_fs_of_type("ext4"), DLK_FS_OTHER);
	assert_int_equal(dlk_fs_of_type(""), DLK_FS_OTHER);
}

/* A mount of this machine, of which statfs(2) tells the magic. */
static bool compare(void *arg, const char *line)
{
	enum dlk_fs by_name, by_magic;
	struct dlk_mount_line m;
	unsigned *n = arg;
	char point[256];
	struct statfs fs;

	/* FUSE would ask its server. */
	if (!dlk_mount_line(line, &m) || m.major != 0 ||
	    sscanf(line, "%*s %*s %*s %*s %255s", point) != 1 ||
	    strncmp(m.type, "fuse", 4) == 0 || statfs(point, &fs) < 0)
		return true;
	by_name = dlk_fs_of_type(m.type);
	by_magic = dlk_fs_of_magic((uint32_t)fs.f_type);
	/* Something else may be mounted over it. */
	if (by_name == DLK_FS_OTHER || by_magic == DLK_FS_OTHER)
		return true;
	assert_int_equal(by_name, by_magic);
	++*n;
	return true;
}

static void name_and_magic_agree(void **state)
{
	unsigned n = 0;

	(void)state;
	assert_true(dlk_each_line("/proc/self/mountinfo", compare, &n));
	assert_true(n > 0);
	assert_int_equal(dlk_fs_of_magic(PROC_SUPER_MAGIC), DLK_FS_LOCAL);
	assert_int_equal(dlk_fs_of_magic(FUSE_SUPER_MAGIC), DLK_FS_FUSE);
	assert_int_equal(dlk_fs_of_magic(AFS_SUPER_MAGIC), DLK_FS_CACHED);
	assert_int_equal(dlk_fs_of_magic(0), DLK_FS_OTHER);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_line_has_device_point_type_and_options),
		cmocka_unit_test(no_field_may_be_many),
		cmocka_unit_test(an_escape_is_one_byte),
		cmocka_unit_test(what_is_cut_still_has_its_type),
		cmocka_unit_test(an_option_is_a_whole_word),
		cmocka_unit_test(a_long_line_is_one_line),
		cmocka_unit_test(what_cannot_be_read_is_no_empty_file),
		cmocka_unit_test(the_kernel_says_so),
		cmocka_unit_test(a_device_has_its_mount_points),
		cmocka_unit_test(a_type_is_known_by_its_name),
		cmocka_unit_test(name_and_magic_agree),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
