/* SPDX-License-Identifier: MIT */
/* A URL is taken or refused; no message, and no name for messages, has its password. */
#include "config/config.h"
#include "tests/fuzz/fuzz.h"

enum { SECRET = 6 };

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
	struct dlk_endpoint ep = { 0 };
	struct dlk_error why = { "" };
	char *url = boxed(bytes, n);

	if (dlk_url_parse(url, &ep, &why) == 0) {
		must(ep.name[0] && !why.text[0]);
		must(ep.port <= 65535 && ep.db >= 0 && ep.db <= 65535);
		must(strnlen(ep.host, sizeof(ep.host)) < sizeof(ep.host));
		must(strnlen(ep.path, sizeof(ep.path)) < sizeof(ep.path));
		if (strlen(ep.password) >= SECRET &&
		    !strstr(ep.host, ep.password) &&
		    !strstr(ep.path, ep.password) &&
		    !strstr("unix:redis://?db=", ep.password))
			must(!strstr(ep.name, ep.password));
	} else {
		must(why.text[0]);
	}
	free(url);
	return 0;
}
