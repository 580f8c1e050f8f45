#!lua flags=allow-oom
-- SPDX-License-Identifier: MIT
-- A server that is old, and yet has another memory than the one that granted
-- before: a replica that was promoted.  It grants nothing for one whole delay
-- from when somebody asked it first; that moment is kept at the key, for those
-- who ask and end.
--
-- KEYS    1 dlock%run:DELAY
-- ARGV    1 the server's run id  2 the delay (ms)
--         3 "1": it was promoted once, or who asks knew another one; or ""
--
-- how long it grants nothing yet (ms)
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local delay = tonumber(ARGV[2])
local said = redis.pcall('GET', KEYS[1])
local id, since = string.match(type(said) == 'string' and said or '',
			       '^(%x+) (%d+)$')
if id == ARGV[1] then
	-- (Its clock may have been set back.)
	return math.min(math.max(since + delay - now, 0), delay)
elseif ARGV[3] == '1' then
	redis.call('SET', KEYS[1], ARGV[1] .. ' ' .. now)
	return delay
end
return 0
