/* SPDX-License-Identifier: MIT */
/* Which configuration, and what is wrong with it; see common.h. */
#include "tools/common.h"
#include "redis/sentinel.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/auxv.h>
#include <unistd.h>

/* One that is where we may not look is there: who would read it says so. */
const char *tool_config_file(const char *option)
{
	const char *file = option ? option : getenv("DLOCK_CONFIG");

	if (file && *file)
		return file;
	if (access(DLK_CONFIG_DEFAULT, F_OK) && errno == ENOENT)
		return NULL;
	return DLK_CONFIG_DEFAULT;
}

static void warn(void *arg, const char *text)
{
	(void)arg;
	tool_say("warning: %s", text);
}

int tool_config_load(const char *file, struct dlk_config **out)
{
	bool secure = getauxval(AT_SECURE) != 0;
	struct dlk_error err = { "" };
	int rc = dlk_config_load(file, secure, warn, NULL, out, &err);

	dlk_sentinel_begin();

	return rc ? tool_fail(DLK_EXIT_CONFIG, "%s", err.text) : 0;
}

struct dlk_config *tool_config_host(void)
{
	const char *file = tool_config_file(NULL);
	struct dlk_error err = { "" };
	struct dlk_config *config = NULL;

	if (file && dlk_config_load(file, false, NULL, NULL, &config, &err))
		tool_say("warning: %s: this host goes without the host_id and "
			 "the state_dir that it may have there (let this user "
			 "read it, and mend it)",
			 err.text);
	return config;
}

void tool_config_idle(const struct dlk_config *config)
{
	if (config->n_there)
		return;
	if (!config->n_rules)
		tool_say("warning: %s has no path section: no lock is managed",
			 config->file);
	for (unsigned i = 0; i < config->n_rules; i++)
		tool_say("warning: %s:%d: path \"%s\" covers nothing that "
			 "exists (it leads to \"%s\")",
			 config->file, config->rules[i].line,
			 config->rules[i].prefix, config->rules[i].place);
}

bool tool_config_uses(const struct dlk_config *config,
		      const struct dlk_redis *redis)
{
	for (unsigned i = 0; i < config->n_rules; i++)
		if (config->rules[i].redis == redis)
			return true;
	return false;
}

uint32_t tool_ttl_beside(const struct dlk_endpoint *ep)
{
	const uint32_t least = ep->connect_timeout_ms * DLK_TTL_PER_TIMEOUT;
	uint32_t ttl = DLK_TTL_DEFAULT_MS;

	if (ep->restart_delay_ms && ep->restart_delay_ms < ttl)
		ttl = (uint32_t)ep->restart_delay_ms;
	if (ttl < least)
		ttl = least;
	return ttl < DLK_TTL_MIN_MS ? DLK_TTL_MIN_MS : ttl;
}
