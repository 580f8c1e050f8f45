/* SPDX-License-Identifier: MIT */
/* A password from its file; see secret.h. */
#include "os/secret.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "model/text.h"
#include "os/read_file.h"

static int refuse(int err, char *why, size_t size, const char *what,
		  const char *more)
{
	struct dlk_text t;

	dlk_text_init(&t, why, size);
	dlk_text_strs(&t, what, more, NULL);
	return err;
}

static bool has_control(const char *text, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if ((unsigned char)text[i] < 0x20 || text[i] == 0x7f)
			return true;
	return false;
}

/* Its length without the last newline. */
static size_t line_of(const char *text, size_t len)
{
	if (len && text[len - 1] == '\n')
		len--;
	if (len && text[len - 1] == '\r')
		len--;
	return len;
}

/* (A byte more than fits, and a newline, are told from what fits.) */
int dlk_secret_read(const char *file, char secret[DLK_SECRET_SIZE],
		    mode_t *mode, char *why, size_t size)
{
	char text[DLK_SECRET_SIZE + 3];
	struct stat st;
	ssize_t n = dlk_read_file(file, text, sizeof(text), &st);
	size_t len;
	int err = 0;

	secret[0] = '\0';
	*mode = 0;
	if (n == -EFBIG)
		n = (ssize_t)sizeof(text) - 1;
	if (n < 0)
		return refuse((int)n, why, size, "cannot be read: ",
			      n == -EINVAL ? "not a regular file"
					   : strerrordesc_np((int)-n));
	*mode = st.st_mode;
	len = line_of(text, (size_t)n);
	if (!len)
		err = refuse(-EINVAL, why, size, "is empty", NULL);
	else if (len >= DLK_SECRET_SIZE)
		err = refuse(-EINVAL, why, size, "holds more than 511 bytes",
			     NULL);
	else if (has_control(text, len))
		err = refuse(-EINVAL, why, size,
			     "holds a control byte, or a second line "
			     "(one line, the password, is allowed)",
			     NULL);
	else
		memcpy(secret, text, len);
	if (!err)
		secret[len] = '\0';
	explicit_bzero(text, sizeof(text));
	return err;
}

const char *dlk_secret_exposed(mode_t mode)
{
	if (mode & (S_IWGRP | S_IWOTH))
		return "written by others than its owner";
	return mode & S_IROTH ? "read by everybody" : NULL;
}
