-- Schema 2 as its versions made it, and what they may have left in it. Not to be changed.
create table meta (name text primary key, value text) without rowid;
create table job (
  key text primary key, id text, uid integer, submit real, reset real, held integer, pinned integer, preemptions integer,
  last_preempted real, failures integer, not_before real, unmovable text, min_nodes integer, max_nodes integer, required text,
  ended integer
) without rowid;
create index live on job (ended, id);
create table run (
  key text, restart integer, start real, end real, gpus integer, nodes text, restore real, save real, pause real, redone integer,
  primary key (key, restart)
) without rowid;
create table intent (
  seq integer primary key, key text, id text, restart integer, kind text, step text, nodes text, beneficiary text,
  began real, stepped real, outcome text
);
create index unfinished on intent (outcome) where outcome = '';
create table decision (seq integer primary key, time real, id text, action text, why text);
create index by_job on decision (id, seq);
insert into meta values ('schema', '2');
insert into job values
  ('7@1000', '7', 1001, 1000.0, 1500.5, 1, 0, 2, 1490.25, 1, 2000.0, 'it''s busy; "why"', 1, 4, 'gpu01,gpu02', 0),
  ('7@10', '7', 1002, 10.0, 0.0, 0, 0, 0, 0.0, 0, 0.0, '', 0, 0, '', 1),
  ('12_3@1100', '12_3', 4294967294, 1100.0, 0.0, 0, 1, 0, 0.0, 16, 1e18, 'ünïcode', 2, 2, '', 0);
insert into run values
  ('7@1000', 0, 1010.0, 1020.0, 4, 'gpu01:4', 12.5, 0.25, 1.5, 3),
  ('7@1000', 1, 1030.0, 0.0, 4, 'gpu01:1,gpu02:3', null, null, null, null),
  ('7@10', 0, 11.0, 5000000.0, 64, '', 11.0, null, null, 0);
insert into intent values
  (1, '7@10', '7', 0, 'start', 'confirm', '[["gpu01", 4]]', '', 10.5, 11.0, 'running: on gpu01:4'),
  (2, '7@1000', '7', 1, 'preempt', 'wait', '[]', '12_3', 1100.0, 1101.5, '');
insert into decision values (1, 10.5, '7', 'start', 'on gpu01:4'), (5, 1100.0, '7', 'preempt', 'for job 12_3');
