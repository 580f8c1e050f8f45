/* SPDX-License-Identifier: MIT */
/*
 * Every symbol that dlock replaces, once: X(name, result, (arguments)).
 *
 * The version script, the pointers to the real functions, their resolver and
 * the test of what is exported all come from this table (STYLE 7).
 */
#ifndef DLK_TABLE_H
#define DLK_TABLE_H

#define DLK_TABLE(X)                                                           \
	X(syscall, long, (long, ...)) /* the first: entry/by_number.c */       \
	X(flock, int, (int, int))                                              \
	X(fcntl, int, (int, int, ...))                                         \
	X(fcntl64, int, (int, int, ...))                                       \
	X(__fcntl, int, (int, int, ...))                                       \
	X(lockf, int, (int, int, __off_t))                                     \
	X(lockf64, int, (int, int, off64_t))                                   \
	X(close, int, (int))                                                   \
	X(__close, int, (int))                                                 \
	X(fclose, int, (FILE *))                                               \
	X(_IO_fclose, int, (FILE *))                                           \
	X(pclose, int, (FILE *))                                               \
	X(endmntent, int, (FILE *))                                            \
	X(__endmntent, int, (FILE *))                                          \
	X(freopen, FILE *, (const char *, const char *, FILE *))               \
	X(freopen64, FILE *, (const char *, const char *, FILE *))             \
	X(closedir, int, (DIR *))                                              \
	X(dup, int, (int))                                                     \
	X(dup2, int, (int, int))                                               \
	X(__dup2, int, (int, int))                                             \
	X(dup3, int, (int, int, int))                                          \
	X(close_range, int, (unsigned, unsigned, int))                         \
	X(closefrom, void, (int))                                              \
	X(recvmsg, ssize_t, (int, struct msghdr *, int))                       \
	X(recvmmsg, int,                                                       \
	  (int, struct mmsghdr *, unsigned, int, struct timespec *))           \
	X(sendmsg, ssize_t, (int, const struct msghdr *, int))                 \
	X(sendmmsg, int, (int, struct mmsghdr *, unsigned, int))               \
	X(pidfd_getfd, int, (int, int, unsigned))                              \
	X(execve, int, (const char *, char *const *, char *const *))           \
	X(execv, int, (const char *, char *const *))                           \
	X(execvp, int, (const char *, char *const *))                          \
	X(execvpe, int, (const char *, char *const *, char *const *))          \
	X(execveat, int,                                                       \
	  (int, const char *, char *const *, char *const *, int))              \
	X(fexecve, int, (int, char *const *, char *const *))                   \
	X(execl, int, (const char *, const char *, ...))                       \
	X(execlp, int, (const char *, const char *, ...))                      \
	X(execle, int, (const char *, const char *, ...))                      \
	X(_exit, void, (int))                                                  \
	X(_Exit, void, (int))                                                  \
	X(quick_exit, void, (int))                                             \
	X(pthread_exit, void, (void *))                                        \
	X(thrd_exit, void, (int))                                              \
	X(setuid, int, (uid_t))                                                \
	X(seteuid, int, (uid_t))                                               \
	X(setreuid, int, (uid_t, uid_t))                                       \
	X(setresuid, int, (uid_t, uid_t, uid_t))                               \
	X(setgid, int, (gid_t))                                                \
	X(setegid, int, (gid_t))                                               \
	X(setregid, int, (gid_t, gid_t))                                       \
	X(setresgid, int, (gid_t, gid_t, gid_t))                               \
	X(setgroups, int, (size_t, const gid_t *))                             \
	X(initgroups, int, (const char *, gid_t))                              \
	X(capset, int, (void *, const void *))                                 \
	X(unshare, int, (int))                                                 \
	X(setns, int, (int, int))                                              \
	X(chroot, int, (const char *))                                         \
	X(pivot_root, int, (const char *, const char *))                       \
	X(_Fork, pid_t, (void))                                                \
	X(vfork, pid_t, (void))                                                \
	X(__vfork, pid_t, (void))                                              \
	X(clone, int, (int (*)(void *), void *, int, void *, ...))             \
	X(__clone, int, (int (*)(void *), void *, int, void *, ...))           \
	X(system, int, (const char *))                                         \
	X(popen, FILE *, (const char *, const char *))                         \
	X(_IO_popen, FILE *, (const char *, const char *))                     \
	X(wordexp, int, (const char *, wordexp_t *, int))                      \
	X(posix_spawn, int,                                                    \
	  (pid_t *, const char *, const posix_spawn_file_actions_t *,          \
	   const posix_spawnattr_t *, char *const *, char *const *))           \
	X(posix_spawnp, int,                                                   \
	  (pid_t *, const char *, const posix_spawn_file_actions_t *,          \
	   const posix_spawnattr_t *, char *const *, char *const *))

#endif
