"""A platform plugin for vLLM: the CPU platform, which Ray may place as if each node had one GPU.

For tests only. vLLM refuses Ray on the CPU ("current platform cpu does not support ray"), since Ray has no notion
of a CPU rank. Here a rank asks for one "GPU" of Ray's, a mere count that `ray start --num-gpus=1` sets, and gets
device 0. Registered as entry point of the group vllm.platform_plugins, so that Ray's workers load it as well.
"""
import os
import socket


def register():
    return "vllm_cpu_on_ray.RayCpuPlatform"


def __getattr__(name):
    # made on demand: vLLM's platform module can't be imported while it looks for plugins
    if name == "RayCpuPlatform":
        from vllm.platforms.cpu import CpuPlatform

        class RayCpuPlatform(CpuPlatform):
            ray_device_key = "GPU"

            @classmethod
            def device_id_to_physical_device_id(cls, device_id):
                return 0

            @classmethod
            def get_device_communicator_cls(cls):
                return "vllm_cpu_on_ray.Communicator"

        globals()[name] = RayCpuPlatform
        return RayCpuPlatform
    if name == "Communicator":
        import torch
        from vllm.distributed.device_communicators.cpu_communicator import CpuCommunicator

        class Communicator(CpuCommunicator):
            def _all_group_ranks_share_shm_group_name(self):
                # vLLM compares a name that Ray hands to all ranks, and would take two nodes for one
                hosts = [None] * self.world_size
                mine = (socket.gethostname(), os.environ.get("VLLM_HOST_IP"))
                torch.distributed.all_gather_object(hosts, mine, group=self.device_group)
                return len(set(hosts)) == 1 and super()._all_group_ranks_share_shm_group_name()

        globals()[name] = Communicator
        return Communicator
    raise AttributeError(name)
