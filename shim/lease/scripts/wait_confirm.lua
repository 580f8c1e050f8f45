#!lua flags=allow-oom
-- SPDX-License-Identifier: MIT
-- A wait lasts, says another thread than the one that waits: it looked after
-- it had read the server's clock (see waits.h).
--
-- KEYS    1 dlock%wait:{w}PROCESS
-- ARGV    1 how long it is believed (ms)  2 its number
--         3 that reading (20 digits); "" when it has not looked
--         4 what is waited for, if nobody could report it for long (the
--           process was stopped): then it is reported again, as of that reading
--
-- now (20 digits); "" when there is no such wait
local what = redis.call('HGET', KEYS[1], ARGV[2])
if not what then
	if ARGV[4] == '' then
		return ''
	end
	what = string.rep('0', 20) .. ' ' .. ARGV[4]
	redis.call('HSET', KEYS[1], ARGV[2], what)
	redis.call('PEXPIRE', KEYS[1], ARGV[1])
end
if ARGV[3] ~= '' and ARGV[3] > string.sub(what, 1, 20) then
	redis.call('HSET', KEYS[1], ARGV[2], ARGV[3] .. string.sub(what, 21))
	redis.call('PEXPIRE', KEYS[1], ARGV[1])
end
local time = redis.call('TIME')
return string.format('%014.0f%06.0f', time[1], time[2])
