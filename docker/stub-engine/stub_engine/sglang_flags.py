"""The command line of SGLang's server: flags that the stub acts on, and those it only knows to be real.

The beginning of a flag is taken for the flag, as argparse does it; what SGLang does not have is refused.
"""

import argparse
from collections.abc import Sequence

from stub_engine.real_flags import SGLANG_SWITCHES, SGLANG_VALUES
from stub_engine.vllm_flags import add_known

ALGORITHMS = ("EAGLE", "EAGLE3", "NEXTN", "STANDALONE", "NGRAM", "DFLASH", "DSPARK", "UNO", "FROZEN_KV_MTP")
KV_TYPES = ("auto", "fp8_e5m2", "fp8_e4m3", "mxfp8", "bf16", "bfloat16", "nvfp4", "fp4_mx_block16", "fp4_e2m1")


def parse(args: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser("launch_server.py", usage="launch_server.py [-h] --model-path MODEL_PATH [options]")
    add = parser.add_argument
    add("--model-path", "--model", required=True)
    add("--served-model-name")
    add("--host", default="127.0.0.1")
    add("--port", type=int, default=30000)
    add("--tp-size", "--tensor-parallel-size", type=int, default=1)
    add("--pp-size", "--pipeline-parallel-size", type=int, default=1)
    add("--dp-size", "--data-parallel-size", type=int, default=1)
    add("--ep-size", "--expert-parallel-size", "--ep", type=int, default=1)
    add("--nnodes", type=int, default=1)
    add("--node-rank", type=int, default=0)
    add("--dist-init-addr", "--nccl-init-addr")
    add("--context-length", type=int)
    add("--mem-fraction-static", type=float, default=0.85)
    add("--max-running-requests", type=int)
    add("--kv-cache-dtype", choices=KV_TYPES, default="auto")
    add("--reasoning-parser")
    add("--tool-call-parser")
    add("--api-key")
    add("--enable-metrics", action="store_true")
    add("--enable-dp-attention", action="store_true")
    add("--disable-cuda-graph", action="store_true")
    add("--disable-radix-cache", action="store_true")
    add("--speculative-algorithm", choices=ALGORITHMS)
    add("--speculative-num-steps", type=int)
    add("--speculative-eagle-topk", type=int)
    add("--speculative-num-draft-tokens", type=int)
    add("--speculative-draft-model-path", "--speculative-draft-model")
    add_known(parser, SGLANG_SWITCHES, SGLANG_VALUES)
    return parser.parse_args(args)


def refuse(options: argparse.Namespace) -> None:
    """What SGLang checks of the flags among each other."""
    chain = (options.speculative_num_steps, options.speculative_eagle_topk, options.speculative_num_draft_tokens)
    assert (options.tp_size * options.pp_size) % options.nnodes == 0, "tp_size must be divisible by number of nodes"
    assert options.nnodes == 1 or options.dist_init_addr, "--dist-init-addr is needed for more than one node"
    assert not (options.dp_size > 1 and options.nnodes != 1 and not options.enable_dp_attention), (
        "multi-node data parallel is not supported unless dp attention!")
    assert not (options.pp_size > 1 and options.speculative_algorithm), (
        "Pipeline parallelism is not compatible with speculative decoding")
    if options.speculative_algorithm in ("EAGLE", "EAGLE3", "NEXTN", "STANDALONE"):
        assert all(chain) or not any(chain), (
            "speculative_num_steps, speculative_eagle_topk and speculative_num_draft_tokens go together")
        assert options.speculative_eagle_topk != 1 or chain[2] == chain[0] + 1, (
            "with one candidate a step there is one draft token more than steps")
