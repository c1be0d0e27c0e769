--[[ Tiresias: lets the controller admit the GPU jobs of the managed partitions before Slurm's scheduler can start them.

Install:  JobSubmitPlugins=lua in slurm.conf, this file in the same folder. A site that has a job_submit.lua already copies the
          functions below into its own and ends slurm_job_submit with  tiresias_admit(job_desc).
How:      while the controller's lease is valid, a job without a later begin time gets one a little ahead. The controller
          finds the job before that time, recognises it by the length of the wait, holds it, and starts it by its rank. A
          priority of 0 is unsuitable: Slurm treats it as a hold by the user, which the user can lift, and it would outlast
          the controller. A byte appended to the file `arrivals` makes the controller start a cycle.
Fail open: when the controller is gone its lease ends, and jobs start as if this file were absent. Users see no error of this
          file: after a failure the job is submitted unchanged.
Cost:     one small read and one byte written for each job; slurmctld waits for nothing else.

The lease has six lines: the epoch second of its end, the managed partitions (a,b), Slurm's default partition, the seconds
that a new job waits for the controller, and the users and the accounts whose jobs only Slurm schedules. ]]

local LEASE = "/run/tiresias/lease"
local ARRIVALS = "/run/tiresias/arrivals"
local NO_VAL = 4294967294 -- slurm.h: a number that was not given

local function read_lease()
	local file = io.open(LEASE, "r")
	if not file then return nil end
	local text = file:read(4096) or ""
	file:close()
	local lease, till = {}
	till, lease.managed, lease.default, lease.wait, lease.users, lease.accounts =
		text:match("^(%d+)\n([^\n]*)\n([^\n]*)\n(%d+)\n([^\n]*)\n([^\n]*)\n")
	if not till or tonumber(till) <= os.time() then return nil end
	return lease
end

local function wake_controller()
	local file = io.open(ARRIVALS, "a")
	if not file then return end -- no write access: the controller polls once a period
	file:write(".")
	file:close()
end

local function set_of(names)
	local set = {}
	for name in names:gmatch("[^,]+") do set[name] = true end
	return set
end

-- True when each of the job's partitions is managed: Slurm schedules a job that may also run elsewhere.
local function all_managed(partitions, managed)
	local set, any = set_of(managed), false
	for name in partitions:gmatch("[^,]+") do
		if not set[name] then return false end
		any = true
	end
	return any
end

-- "gres/gpu:v100:2", "gres:gpu=2", "gpu": yes; "gpu:0", "cpu:4", "gres/shard:1": no.
local function names_gpus(tres)
	for entry in (tres or ""):gmatch("[^,]+") do
		local name, rest = entry:gsub("^gres[:/]", ""):match("^(%a+)(.*)")
		if name == "gpu" and not rest:match("[:=]0+$") then return true end
	end
	return false
end

local function asks_for_gpus(job_desc)
	return names_gpus(job_desc.tres_per_job) or names_gpus(job_desc.tres_per_node)
		or names_gpus(job_desc.tres_per_socket) or names_gpus(job_desc.tres_per_task)
end

local function is_exempt(job_desc, lease)
	local account = job_desc.account or job_desc.default_account or ""
	return set_of(lease.users)[job_desc.user_name or ""] or set_of(lease.accounts)[account]
end

local function is_heterogeneous(job_desc)
	local offset = job_desc.het_job_offset
	return offset ~= nil and offset < NO_VAL
end

function tiresias_admit(job_desc)
	pcall(function()
		local lease = read_lease()
		if not lease or not all_managed(job_desc.partition or lease.default, lease.managed) then return end
		if is_exempt(job_desc, lease) then return end
		if is_heterogeneous(job_desc) or job_desc.reservation or not asks_for_gpus(job_desc) then return end
		wake_controller()
		local now, begin = os.time(), job_desc.begin_time
		if begin ~= nil and begin > now and begin < NO_VAL then return end
		job_desc.begin_time = now + lease.wait
	end)
end

function slurm_job_submit(job_desc, part_list, submit_uid)
	tiresias_admit(job_desc)
	return slurm.SUCCESS
end

function slurm_job_modify(job_desc, job_rec, part_list, modify_uid)
	return slurm.SUCCESS
end

return slurm.SUCCESS
