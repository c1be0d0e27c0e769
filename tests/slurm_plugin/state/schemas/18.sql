-- Schema 18 as its versions made it, and what they may have left in it. Not to be changed.
create table meta (name text primary key, value text) without rowid;
create table job (
  key text primary key, id text, uid integer, submit real, reset real, held integer, pinned integer, preemptions integer,
  last_preempted real, failures integer, not_before real, unmovable text, min_nodes integer, max_nodes integer, required text,
  kind text, ended integer, over real, excluded text, pin text, asked text, unpinnable text,
  virtual_cluster text, priority_class integer, min_gpus integer, max_gpus integer, progress real,
  total_steps real, claim_at real, claim_left real, earliest_at real, earliest_left real, opportunistic text,
  elastic text, rigid text, converges text,
  slow_nodes text, slow_until real, failed_nodes text, failed_until real
) without rowid;
create index live on job (ended, id);
create index by_id on job (id);
create index by_end on job (over, key);
create index by_owner on job (uid, over, key);
create table run (
  key text, restart integer, start real, end real, gpus integer, nodes text, restore real, save real, pause real, redone integer,
  pace real, cells text, lost real, timed real, samples real, expected real, servers integer,
  primary key (key, restart)
) without rowid;
create table loss (
  key text, step real, loss real, reports integer, primary key (key, step)
) without rowid;
create table intent (
  seq integer primary key, key text, id text, restart integer, kind text, step text, nodes text, beneficiary text,
  began real, stepped real, outcome text, epoch integer, cells text, parts text, servers integer
);
create index unfinished on intent (outcome) where outcome = '';
create index moves on intent (key);
create table decision (seq integer primary key, time real, id text, action text, why text);
create index by_job on decision (id, seq);
create table watch (
  began real primary key, until real, gpus integer, busy real, movable real, agreed real, idle real, taken real, sooner integer,
  preempted integer
) without rowid;
create table would (
  key text, restart integer, action text, began real, watch real, until real, gpus integer, nodes text, beneficiary text,
  primary key (key, restart, action, began)
) without rowid;
create view watched as select
  (select min(began) from watch) as began, max(until) as until, gpus, sum(until - began) as seconds,
  sum((until - began) * gpus) as gpu_seconds, sum(busy) as busy, sum(movable) as movable, sum(agreed) as agreed, sum(idle) as idle,
  sum(taken) as taken, sum(sooner) as sooner, sum(preempted) as preempted
from watch group by null;
create view watched_job as select
  id as job_id, uid, submit, max(run.gpus) as gpus, sum(min(coalesce(nullif(end, 0), until), until) - start) as service,
  case when ended = 1 then min(max(end), until) else until end as finish
from watched join job on submit < until left join run on run.key = job.key and start < until
group by job.key having ended = 0 or max(end) >= began;
create view watched_run as select
  id as job_id, uid, would.restart as restart, max(would.gpus) as gpus,
  max(coalesce(start, max(coalesce(would.until, watch.until))) - min(iif(action = 'preempt', null, would.began)), 0) as won,
  sum(iif(action = 'preempt', coalesce(would.until, watch.until) - would.began, 0)) as lost
from would join watch on watch.began = would.watch join job on job.key = would.key
left join run on run.key = would.key and run.restart = would.restart group by would.key, would.restart;
insert into meta values ('schema', '18'), ('epoch', '12');
insert into job values
  ('7@1000', '7', 1001, 1000.0, 1500.5, 1, 0, 2, 1490.25, 1, 2000.0, 'preemption_refused: it''s busy; "why"', 1, 4, 'gpu01,gpu02', 'train-0f.json', 0, 0.0, 'gpu04', 'only', '', 'pins_change_request: tasks 2 to 1', '', 3, 4, 4, 250.0, 1000.0, 60.5, 3000.0, 10.0, 2990.0, 'restart', '2-8:2', 'other_ranks: 2 4 4', '{"loss": 0.25}', 'gpu02,gpu07', 87500.5, 'gpu03', 1220.0),
  ('7@10', '7', 1002, 10.0, 0.0, 0, 0, 0, 0.0, 0, 0.0, '', 0, 0, '', '', 1, 5000000.0, '', '', '', '', '', 0, 0, 0, null, null, null, null, null, null, '', '', '', '', '', 0.0, '', 0.0),
  ('12_3@1100', '12_3', 4294967294, 1100.0, 0.0, 0, 1, 0, 0.0, 16, 1e18, 'earlier_version: ünïcode', 2, 2, '', '', 0, 0.0, '', 'number', '{"start": 1, "tasks": 2}', '', 'research', 1, 2, 8, null, null, null, null, null, null, 'saves', 'fixed', '', '', '', 0.0, '', 0.0);
insert into run values
  ('7@1000', 0, 1010.0, 1020.0, 4, 'gpu01:4', 12.5, 0.25, 1.5, 3, 0.125, 'gpu01=leaf#2', 9.5, 0.75, 128.0, 0.5, 2),
  ('7@1000', 1, 1030.0, 0.0, 4, 'gpu01:1,gpu02:3', null, null, null, null, null, '', null, null, null, null, 1),
  ('7@10', 0, 11.0, 5000000.0, 64, '', 11.0, null, null, 0, null, '', null, null, null, null, 0);
insert into loss values ('7@1000', 100.0, 2.5, 2), ('7@1000', 200.0, 1.25, 2);
insert into intent values
  (1, '7@10', '7', 0, 'start', 'confirm', '[["gpu01", 4]]', '', 10.5, 11.0, 'running: on gpu01:4', 0, 'gpu01=leaf#2', '[[0, 4]]', 2),
  (2, '7@1000', '7', 1, 'preempt', 'wait', '[]', '12_3', 1100.0, 1101.5, '', 12, '', '[]', 0);
insert into decision values (1, 10.5, '7', 'start', 'on gpu01:4'), (5, 1100.0, '7', 'preempt', 'for job 12_3');
insert into watch values
  (900.0, 1130.5, 64, 9000.5, 100.0, 200.25, 40.0, 0.0, 1, 1), (1200.0, 1230.0, 64, 0.0, 0.0, 30.0, 0.0, 0.0, 0, 0);
insert into would values
  ('7@1000', 0, 'start', 1001.5, 900.0, 1010.0, 4, 'gpu01:4', ''),
  ('7@1000', 1, 'preempt', 1100.0, 900.0, null, 4, '', '12_3');
