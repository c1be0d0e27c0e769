/* The functions of libcuda.so.1 that cuda_state.py calls, for machines without a GPU: NVIDIA's driver is the outermost edge of the
 * tests. FAKE_CUDA names a folder. Its file `gpus` has a UUID a line; the file `PID` has the state of a process; what is called is
 * appended to `calls`; the file `fails` has "FUNCTION PID": that call is refused. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RUNNING, LOCKED, SUSPENDED };
struct pair { unsigned char old[16], new[16]; };
struct restore { struct pair *pairs; unsigned count; unsigned char reserved[52]; };
struct lock { unsigned timeout; unsigned char reserved[60]; };

static FILE *file(const char *name, const char *mode) {
  char path[4096];
  snprintf(path, sizeof path, "%s/%s", getenv("FAKE_CUDA"), name);
  return fopen(path, mode);
}

static int state_of(int pid) {
  char name[16];
  int state = -1;
  snprintf(name, sizeof name, "%d", pid);
  FILE *found = file(name, "r");
  if (found) { if (fscanf(found, "%d", &state) != 1) state = -1; fclose(found); }
  return state;
}

static int change(const char *function, int pid, int from, int to, const char *words) {
  char name[64], failing[64] = "";
  FILE *calls = file("calls", "a"), *fails = file("fails", "r");
  fprintf(calls, "%s %d%s\n", function, pid, words);
  fclose(calls);
  snprintf(name, sizeof name, "%s %d", function, pid);
  if (fails) { if (!fgets(failing, sizeof failing, fails)) failing[0] = 0; fclose(fails); }
  if (!strcmp(failing, name)) return 801;
  if (state_of(pid) != from) return 401;
  snprintf(name, sizeof name, "%d", pid);
  FILE *state = file(name, "w");
  fprintf(state, "%d", to);
  fclose(state);
  return 0;
}

int cuInit(unsigned flags) { return flags || !getenv("FAKE_CUDA") ? 100 : 0; }

int cuGetErrorName(int code, const char **text) {
  *text = code == 801 ? "CUDA_ERROR_NOT_SUPPORTED" : code == 401 ? "CUDA_ERROR_ILLEGAL_STATE" : "CUDA_ERROR_NO_DEVICE";
  return 0;
}

static int uuids(unsigned char (*found)[16]) {
  FILE *gpus = file("gpus", "r");
  int count = 0;
  char line[64];
  while (gpus && fscanf(gpus, "%63s", line) == 1) {
    for (int i = 0; i < 16; i++) { unsigned value; sscanf(line + 2 * i, "%2x", &value); found[count][i] = (unsigned char)value; }
    count++;
  }
  if (gpus) fclose(gpus);
  return count;
}

int cuDeviceGetCount(int *count) { unsigned char all[8][16]; *count = uuids(all); return 0; }

int cuDeviceGetUuid_v2(unsigned char *uuid, int number) {
  unsigned char all[8][16];
  if (number >= uuids(all)) return 100;
  memcpy(uuid, all[number], 16);
  return 0;
}

int cuCheckpointProcessGetState(int pid, int *state) { *state = state_of(pid); return *state < 0 ? 801 : 0; }

int cuCheckpointProcessLock(int pid, struct lock *lock) {
  return lock->timeout && !lock->reserved[59] ? change("lock", pid, RUNNING, LOCKED, "") : 1;
}

int cuCheckpointProcessCheckpoint(int pid, void *none) { return none ? 1 : change("checkpoint", pid, LOCKED, SUSPENDED, ""); }

int cuCheckpointProcessRestore(int pid, struct restore *restore) {
  char words[256] = "";
  for (unsigned i = 0; restore && i < restore->count; i++) {
    snprintf(words + strlen(words), sizeof words - strlen(words), " %02x->%02x", restore->pairs[i].old[15], restore->pairs[i].new[0]);
  }
  return change("restore", pid, SUSPENDED, LOCKED, words);
}

int cuCheckpointProcessUnlock(int pid, void *none) { return none ? 1 : change("unlock", pid, LOCKED, RUNNING, ""); }
