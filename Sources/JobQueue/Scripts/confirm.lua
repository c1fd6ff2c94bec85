#!lua flags=allow-oom
-- Writes something small, also when Redis is out of memory, so that the WAIT that follows on the
-- same connection has a write to wait for.
--
-- ARGV: 1 name of the connection.
-- Returns OK.
return redis.call('SET', ns .. ':confirm:' .. ARGV[1], now, 'PX', 60000)
