"""Flags of the real engines that the stub takes and does nothing with; other names of a flag stand behind a `|`.

vLLM's are those of 0.32's own parser, SGLang's the most used ones of 0.5.
"""

VLLM_SWITCHES = ""
VLLM_VALUES = ""

SGLANG_SWITCHES = """
--abort-on-priority-when-disabled --allow-auto-truncate --delete-ckpt-after-loading --disable-chunked-prefix-cache
--disable-cuda-graph-padding --disable-custom-all-reduce --disable-fast-image-processor --disable-flashinfer-autotune
--disable-hybrid-swa-memory --disable-outlines-disk-cache --disable-overlap-schedule --disable-piecewise-cuda-graph
--disable-priority-preemption --disable-shared-experts-fusion --disable-tokenizer-batch-decode --enable-cache-report
--enable-custom-logit-processor --enable-deterministic-inference --enable-dp-lm-head --enable-dynamic-batch-tokenizer
--enable-eplb --enable-expert-distribution-metrics --enable-flashinfer-allreduce-fusion --enable-fp32-lm-head
--enable-hierarchical-cache --enable-lora --enable-memory-saver --enable-metrics-for-all-schedulers --enable-mixed-chunk
--enable-mscclpp --enable-multimodal --enable-nan-detection --enable-nccl-nvls --enable-p2p-check
--enable-priority-scheduling --enable-request-time-stats-logging --enable-return-hidden-states
--enable-single-batch-overlap --enable-symm-mem --enable-tokenizer-batch-encode --enable-torch-compile
--enable-torch-symm-mem --enable-trace --enable-two-batch-overlap --enable-weights-cpu-backup --is-embedding
--keep-mm-feature-on-device --log-requests --show-time-cost --skip-server-warmup --skip-tokenizer-init
--sleep-on-idle --trust-remote-code --triton-attention-reduce-in-fp32 --weight-loader-disable-mmap
"""

SGLANG_VALUES = """
--allow-auto-truncate-tokens --attention-backend --attn-cp-size --base-gpu-id --chat-template --chunked-prefill-size
--collect-tokens-histogram --completion-template --config --cpu-offload-gb --cuda-graph-backend-decode --cuda-graph-bs
--cuda-graph-bs-decode --cuda-graph-max-bs --cuda-graph-max-bs-decode --dcp-size --decode-attention-backend
--decode-log-interval --deepep-config --deepep-mode --detokenizer-worker-num --device --disaggregation-mode
--dist-timeout --download-dir --dtype --enable-fused-moe-sum-all-reduce --eplb-algorithm --fp4-gemm-backend
--fp8-gemm-backend --gpu-id-step --grammar-backend --hicache-io-backend --hicache-mem-layout --hicache-ratio
--hicache-size --hicache-storage-backend --hicache-write-policy --init-expert-location --json-model-override-args
--kt-cpuinfer --kt-method --kt-weight-path --load-balance-method --load-format --log-level --log-level-http
--lora-backend --lora-paths --mamba-ssm-dtype --mamba-full-memory-ratio --max-lora-rank --max-loras-per-batch
--max-mamba-cache-size --max-prefill-tokens --max-queued-requests --max-total-tokens --min-free-slots-delay
--mm-attention-backend --mm-process-config --model-impl --model-loader-extra-config --moe-a2a-backend
--moe-dense-tp-size --moe-dp-size --moe-runner-backend --nccl-port --num-continuous-decode-steps --page-size
--pp-max-micro-batch-size --preferred-sampling-params --prefill-attention-backend --prefill-max-requests --quantization
--quantization-param-path --radix-eviction-policy --random-seed --revision --sampling-backend --sampling-defaults
--schedule-conservativeness --schedule-policy --scheduler-recv-interval --soft-watchdog-timeout
--speculative-accept-threshold-acc --speculative-accept-threshold-single --speculative-attention-mode
--speculative-draft-attention-backend --speculative-draft-load-format --speculative-draft-model-quantization
--speculative-draft-model-revision --speculative-moe-runner-backend --speculative-ngram-max-match-window-size
--speculative-token-map --ssl-certfile --ssl-keyfile --stream-interval --swa-full-tokens-ratio --tokenizer-backend
--tokenizer-mode --tokenizer-path --tokenizer-worker-num --tool-server --torch-compile-max-bs --warmups
--watchdog-timeout --weight-version
"""
