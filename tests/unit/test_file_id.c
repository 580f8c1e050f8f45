/* SPDX-License-Identifier: MIT */
/* %i: which file systems number their files alike, and what it is made of. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "os/file_id.h"

static enum dlk_numbering of(const char *type, bool serverino)
{
	struct dlk_mount mount = { .serverino = serverino };

	strcpy(mount.type, type);
	return dlk_numbering_of(&mount);
}

static void shares_that_agree(void **state)
{
	(void)state;
	assert_int_equal(of("nfs", false), DLK_SAME_INODE);
	assert_int_equal(of("nfs4", false), DLK_SAME_INODE);
	assert_int_equal(of("ceph", false), DLK_SAME_INODE);
	assert_int_equal(of("fuse.glusterfs", false), DLK_SAME_INODE);
	assert_int_equal(of("gfs2", false), DLK_SAME_HANDLE);
	assert_int_equal(of("ocfs2", false), DLK_SAME_HANDLE);
}

static void cifs_agrees_by_serverino_only(void **state)
{
	(void)state;
	assert_int_equal(of("cifs", true), DLK_SAME_INODE);
	assert_int_equal(of("smb3", true), DLK_SAME_INODE);
	assert_int_equal(of("cifs", false), DLK_CLIENT_NUMBERS);
	assert_int_equal(of("smb3", false), DLK_CLIENT_NUMBERS);
}

static void all_others_do_not(void **state)
{
	static const char *const types[] = {
		"",        "ext4", "xfs",        "btrfs",       "tmpfs",
		"overlay", "fuse", "fuse.sshfs", "fuse.rclone", "fuse.bindfs2",
		"fuseblk", "9p",   "nfsd",       "nf",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(types) / sizeof(*types); i++)
		assert_int_equal(of(types[i], true), DLK_OWN_NUMBERS);
}

static void what_agrees_on_nothing_is_refused(void **state)
{
	char name[DLK_INODE_MAX], why[DLK_INODE_WHY_MAX];
	int fd = open("/proc/self/status", O_RDONLY);

	(void)state;
	assert_int_equal(dlk_inode_name(fd, 100, name, why), -ENOTUNIQ);
	assert_non_null(strstr(why, "type proc is not known"));
	close(fd);
	assert_int_equal(dlk_inode_name(fd, 100, name, why), -ENOTUNIQ);
	assert_non_null(strstr(why, "no telling"));
}

static void a_handle_is_the_file_s(void **state)
{
	char one[] = "/tmp/dlock-id.XXXXXX", two[] = "/tmp/dlock-id.XXXXXX";
	int a = mkstemp(one), b = mkstemp(two), again = open(one, O_RDONLY);

	(void)state;
	/* Where there are any. */
	if (dlk_handle_hash(a)) {
		assert_true(dlk_handle_hash(a) == dlk_handle_hash(again));
		assert_true(dlk_handle_hash(a) != dlk_handle_hash(b));
	}
	unlink(one);
	unlink(two);
	close(a);
	close(b);
	close(again);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(shares_that_agree),
		cmocka_unit_test(cifs_agrees_by_serverino_only),
		cmocka_unit_test(all_others_do_not),
		cmocka_unit_test(what_agrees_on_nothing_is_refused),
		cmocka_unit_test(a_handle_is_the_file_s),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
