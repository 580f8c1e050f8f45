#!lua flags=allow-oom
-- SPDX-License-Identifier: MIT
-- How long a server grants nothing yet: until its memory is as old as the delay.
-- When its memory began is kept at a key, for those who ask and end; and that it
-- is old enough for this delay is a key as well, the gate (gate.inc).
--
-- KEYS    1 dlock%run:DB  2 the gate, dlock%run:DB:DELAY
-- ARGV    1 the server's run id  2 the delay (ms)  3 its uptime (ms)
--         4 "1": it was promoted once, or who asks knew another one; or ""
--         5 "1": nobody of us has asked this server about this database since
--           it started; or ""
--
-- {how long it grants nothing yet (ms), why: 'restarted', 'promoted', 'emptied';
--  'open' behind it: it is old enough for somebody's delay, and may have granted,
--  when its memory began, and what time it is (ms)}
--include now.inc
local delay, uptime = tonumber(ARGV[2]), tonumber(ARGV[3])
local said = redis.pcall('GET', KEYS[1])
said = type(said) == 'string' and said or ''
local id, since, why = string.match(said, '^(%x+) (%d+) (%l+)$')
local function note(as)
	since = math.max(math.floor(since), 0)
	redis.call('SET', KEYS[1], string.format('%s %d %s', ARGV[1], since,
						 as))
end
if id ~= ARGV[1] then
	since, why = now - uptime, 'restarted'
	if said == '' and ARGV[5] == '' then
		-- [EMPTIED] Somebody of us was here, and nothing is left of it.
		since, why = now, 'emptied'
	elseif ARGV[4] == '1' then
		since, why = now, 'promoted'
	end
	note(why)
elseif tonumber(since) > now then
	since = now -- its clock was set back
	note(why)
end
since = tonumber(since)
local left = math.max(since + delay - now, 0)
if ARGV[1] == '0' then
	-- It may be another run, for all that it says of itself.
	left = math.max(left, delay - uptime)
elseif id == ARGV[1] and redis.pcall('GET', KEYS[2]) == id then
	left = 0 -- this run was old enough, by whatever clock
end
if left > 0 then
	redis.call('DEL', KEYS[2])
else
	redis.call('SET', KEYS[2], ARGV[1]) -- (a snapshot may have another's)
	if string.sub(why, -4) ~= 'open' then
		note(why .. 'open')
	end
end
return { left, why, since, now }
