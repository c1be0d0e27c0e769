/* The functions of libnvidia-ml.so.1 that nvml_meter.py calls, for machines without a GPU: NVIDIA's library is the outermost edge
 * of the tests. The utilisation of each GPU, in percent, is read from the file that FAKE_GPU_USE names: "0 80". */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct utilization { unsigned int gpu, memory; };

static int use_of(int index, unsigned int *found) {
  FILE *file = fopen(getenv("FAKE_GPU_USE") ? getenv("FAKE_GPU_USE") : "", "r");
  unsigned int value, at = 0;
  if (!file) return -1;
  while (fscanf(file, "%u", &value) == 1 && (int)at <= index) { if ((int)at++ == index) *found = value; }
  fclose(file);
  return (int)at;
}

static int count_all(void) { unsigned int value; return use_of(1000, &value); }

int nvmlInit_v2(void) { return getenv("FAKE_GPU_USE") ? 0 : 9; }

int nvmlDeviceGetCount_v2(unsigned int *count) {
  int found = count_all();
  *count = found < 0 ? 0 : (unsigned int)found;
  return found < 0 ? 9 : 0;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned int index, void **device) {
  *device = (void *)(size_t)(index + 1);
  return (int)index < count_all() ? 0 : 2;
}

int nvmlDeviceGetHandleByUUID(const char *uuid, void **device) {
  return strncmp(uuid, "GPU-", 4) ? 3 : nvmlDeviceGetHandleByIndex_v2((unsigned int)atoi(uuid + 4), device);
}

int nvmlDeviceGetUtilizationRates(void *device, struct utilization *rates) {
  rates->memory = 0;
  return use_of((int)(size_t)device - 1, &rates->gpu) < (int)(size_t)device ? 3 : 0;
}
