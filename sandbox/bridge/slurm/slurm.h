#ifndef TIRESIAS_SLURM_BRIDGE_H
#define TIRESIAS_SLURM_BRIDGE_H
#include_next <slurm/slurm.h>

static inline slurm_step_id_t bridge_job(uint32_t job_id)
{
	slurm_step_id_t step = SLURM_STEP_ID_INITIALIZER;
	step.job_id = job_id;
	return step;
}

static inline int bridge_pid2jobid(pid_t pid, uint32_t *job_id)
{
	slurm_step_id_t step = SLURM_STEP_ID_INITIALIZER;
	int rc = slurm_pid2jobid(pid, &step);
	*job_id = step.job_id;
	return rc;
}

/* A function-like macro does not expand itself, so each name below still reaches the library's function. */
#define slurm_load_job(resp, job_id, flags)   slurm_load_job((resp), bridge_job(job_id), (flags))
#define slurm_kill_job(job_id, signal, flags) slurm_kill_job(bridge_job(job_id), (signal), (flags))
#define slurm_suspend(job_id)                 slurm_suspend(bridge_job(job_id))
#define slurm_resume(job_id)                  slurm_resume(bridge_job(job_id))
#define slurm_requeue(job_id, flags)          slurm_requeue(bridge_job(job_id), (flags))
#define slurm_notify_job(job_id, message)     slurm_notify_job(bridge_job(job_id), (message))
#define slurm_get_rem_time(job_id)            slurm_get_rem_time(bridge_job(job_id))
#define slurm_get_end_time(job_id, end)       slurm_get_end_time(bridge_job(job_id), (end))
#define slurm_job_node_ready(job_id)          slurm_job_node_ready(bridge_job(job_id))
#define slurm_pid2jobid(pid, job_id)          bridge_pid2jobid((pid), (job_id))
#define slurm_free_ctl_conf(conf)             slurm_free_conf(conf)

/* Gone in 26.05: no call returns it any more. */
#define ESLURM_ERROR_ON_DESC_TO_RECORD_COPY 0x7fffffff
#endif
