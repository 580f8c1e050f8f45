/* SPDX-License-Identifier: MIT */
/* The first command of a connection; see login.h. */
#include "tls/login.h"

#include <errno.h>
#include <string.h>

#include "model/text.h"
#include "os/secret.h"

static void put_word(struct dlk_text *t, const char *word)
{
	dlk_text_str(t, "$");
	dlk_text_u64(t, strlen(word), 0);
	dlk_text_strs(t, "\r\n", word, "\r\n", NULL);
}

/* Another attempt may find more memory, or a descriptor. */
static bool may_pass(int err)
{
	return err == -EMFILE || err == -ENFILE || err == -ENOMEM ||
	       err == -EIO;
}

int dlk_login_command(const struct dlk_tls_start *to, char *command,
		      size_t size, struct dlk_tls_status *s)
{
	char secret[DLK_SECRET_SIZE], why[100];
	struct dlk_text t = dlk_text_in(command, size);
	mode_t mode;
	int err;

	if (!to->password_file[0])
		return 0;
	err = dlk_secret_read(to->password_file, secret, &mode, why,
			      sizeof(why));
	if (err) {
		t = dlk_text_in(s->why, sizeof(s->why));
		dlk_text_strs(&t, "password_file ", to->password_file, " ", why,
			      NULL);
		s->err = may_pass(err) ? err : -ENOKEY;
		return s->err;
	}
	dlk_text_str(&t, to->username[0] ? "*3\r\n" : "*2\r\n");
	put_word(&t, "AUTH");
	if (to->username[0])
		put_word(&t, to->username);
	put_word(&t, secret);
	explicit_bzero(secret, sizeof(secret));
	return (int)t.len;
}
