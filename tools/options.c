/* SPDX-License-Identifier: MIT */
/* Options in words; see options.h. */
#include "tools/options.h"

#include <inttypes.h>
#include <stdio.h>

static const char *const modes[] = { "single", "sentinel", "cluster",
				     "quorum" };
static const char *const transports[] = { "tcp", "tls", "unix" };
static const char *const on_lost[] = { "kill", "hold", "pause", "report" };
static const char *const unreachable[] = { "fail", "local" };
static const char *const locals[] = { "file", "shadow" };
static const char *const coherence[] = { "auto", "on", "off" };
static const char *const booleans[] = { "false", "true" };

const char *option_mode(const struct dlk_redis *redis)
{
	return modes[redis->mode];
}

struct tool_span option_duration(uint64_t ms)
{
	int digits = 3;
	uint64_t part = ms % 1000;
	struct tool_span s;

	for (; digits && part % 10 == 0; digits--)
		part /= 10;
	if (ms && ms < 1000)
		snprintf(s.text, sizeof(s.text), "%" PRIu64 "ms", ms);
	else if (digits)
		snprintf(s.text, sizeof(s.text), "%" PRIu64 ".%0*" PRIu64 "s",
			 ms / 1000, digits, part);
	else
		snprintf(s.text, sizeof(s.text), "%" PRIu64 "s", ms / 1000);
	return s;
}

static struct option_row *put(struct option_row *row, const char *name,
			      const char *value)
{
	row->name = name;
	row->note = NULL;
	snprintf(row->value, sizeof(row->value), "%s", value);
	return row + 1;
}

static struct option_row *put_ms(struct option_row *row, const char *name,
				 uint64_t ms)
{
	return put(row, name, option_duration(ms).text);
}

unsigned options_of(const struct dlk_rule *rule,
		    struct option_row rows[OPTIONS_MAX])
{
	const struct dlk_redis *redis = rule->redis;
	const struct dlk_endpoint *ep = redis->endpoints;
	struct option_row *row = rows;
	char replicas[16];

	snprintf(replicas, sizeof(replicas), "%u", redis->replicas);
	row = put(row, "mode", option_mode(redis));
	row = put(row, "transport", transports[ep->scheme]);
	row = put_ms(row, "connect_timeout", ep->connect_timeout_ms);
	row = put_ms(row, "restart_delay", ep->restart_delay_ms);
	row = put(row, "allow_eviction", booleans[ep->allow_eviction]);
	row = put(row, "replicas", replicas);
	row = put_ms(row, "timeout", rule->timeout_ms);
	row = put_ms(row, "hold_at_least", rule->hold_at_least_ms);
	row = put(row, "on_lost", on_lost[rule->on_lost]);
	if (rule->on_lost == DLK_LOST_PAUSE)
		row = put_ms(row, "pause_at_most", rule->pause_ms);
	row = put(row, "unreachable", unreachable[rule->unreachable]);
	if (rule->unreachable == DLK_UNREACHABLE_LOCAL)
		row[-1].note = "without Redis, no other host is kept out";
	row = put(row, "local", locals[rule->local]);
	row = put(row, "coherence", coherence[rule->coherence]);
	row = put(row, "fair", booleans[rule->fair]);
	row = put(row, "interop", booleans[rule->interop]);
	return (unsigned)(row - rows);
}
