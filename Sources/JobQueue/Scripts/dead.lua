#!lua flags=allow-oom
-- Moves a job that cannot run from this worker's list of taken jobs to the dead letters.
--
-- ARGV: 1 worker, 2 the job as it was taken, 3 the dead letter (JSON).
-- Returns 1 when it moved, 0 when it was moved before.
if forget_job(ARGV[1], ARGV[2]) == 0 then return 0 end
redis.call('LPUSH', ns .. ':dead', ARGV[3])
add_stat('jobs_dead', 1)
expire_stats()
return 1
