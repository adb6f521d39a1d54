"""Flags of the real engines that the stub takes and does nothing with; other names of a flag stand behind a `|`.

vLLM's are those of 0.32's own parser, SGLang's the most used ones of 0.5.
"""

VLLM_SWITCHES = """
--aggregate-engine-logging --allow-credentials --allow-deprecated-quantization --async-scheduling
--cohere-is-reasoning-model --cudagraph-metrics --data-parallel-external-lb|-dpe --data-parallel-hybrid-lb|-dph
--data-parallel-multi-port-external-lb|-dpm --dcp-q-replicate --disable-cascade-attn --disable-chunked-mm-input
--disable-custom-all-reduce --disable-fastapi-docs --disable-hybrid-kv-cache-manager --disable-log-stats
--disable-nccl-for-dp-synchronization --disable-sliding-window --disable-uvicorn-access-log --enable-auto-tool-choice
--enable-batch-sharded-sampling --enable-chunked-prefill --enable-cumem-allocator --enable-dbo --enable-elastic-ep
--enable-ep-weight-filter --enable-eplb --enable-expert-parallel|-ep --enable-fault-tolerance
--enable-flash-late-interaction --enable-flashinfer-autotune --enable-force-include-usage --enable-hc-sp
--enable-layerwise-nvtx-tracing --enable-log-deltas --enable-log-outputs --enable-log-requests
--enable-logging-iteration-details --enable-lora --enable-mamba-cache-stochastic-rounding
--enable-mamba-shared-prefix-checkpoint --enable-mfu-metrics --enable-mixed-moe-lora-format --enable-mm-embeds
--enable-moe-shared-loras --enable-nccl-comm-suspend --enable-offline-docs --enable-per-request-metrics
--enable-prefix-caching --enable-prompt-embeds --enable-prompt-tokens-details --enable-request-id-headers
--enable-return-routed-experts --enable-scale-out --enable-server-load-tracking --enable-shm-tensor-arena
--enable-sleep-mode --enable-ssl-refresh --enable-tokenizer-info-endpoint --enable-tower-connector-lora
--enable-trace-replay --enforce-eager --exclude-tools-when-tool-choice-none --fail-on-environ-validation
--fully-sharded-loras --grpc --headless --interleave-mm-strings --jit-monitor-verbose --kv-cache-metrics
--kv-sharing-fast-prefill --language-model-only --log-error-stack --long-prefill-token-threshold-adaptive
--mm-device-do-normalize --mm-encoder-only --numa-bind --ray-workers-use-nsight --return-sampling-mask
--return-tokens-as-token-ids --scheduler-reserve-full-isl --skip-mm-profiling --skip-tokenizer-init
--sleep-mode-offload-cudagraph --specialize-active-lora --swa-bounded-replay --tokens-only --trust-remote-code
--trust-request-chat-template --trust-request-mm-kwargs --use-fp64-gumbel --use-replayssm --use-tqdm-on-load
"""

VLLM_VALUES = """
--additional-config --all2all-backend --allowed-headers --allowed-local-media-path --allowed-media-domains
--allowed-methods --allowed-origins --anthropic-disabled-thinking-effort --api-key --api-server-count|-asc
--attention-backend --attention-config|-ac --aux-output-config --block-size --chat-template
--chat-template-content-format --code-revision --cohere-format --collect-detailed-traces --compilation-config|-cc
--config --config-format --convert --cp-kv-cache-interleave-size --cpu-distributed-timeout-seconds --cpu-offload-gb
--cpu-offload-params --cudagraph-capture-sizes --custom-histogram-buckets --data-parallel-address|-dpa
--data-parallel-backend|-dpb --data-parallel-rank|-dpn --data-parallel-rpc-port|-dpp --data-parallel-size-local|-dpl
--data-parallel-size|-dp --data-parallel-start-rank|-dpr --data-parallel-supervisor-port --dbo-decode-token-threshold
--dbo-prefill-token-threshold --dcp-comm-backend --dcp-kv-cache-interleave-size --decode-context-parallel-size|-dcp
--default-chat-template-kwargs --default-mm-loras --device-ids --diffusion-config|-dc
--disable-access-log-for-endpoints --distributed-executor-backend --distributed-timeout-seconds --download-dir
--dp-supervisor-probe-failure-threshold --dp-supervisor-probe-interval-s --dp-supervisor-probe-timeout-s
--dp-sync-interval --dtype --ec-manager-config --ec-transfer-config --elastic-ep-max-dp-size --engram-config
--eplb-config --expert-placement-strategy --fault-tolerance-config --fingerprint-mode --fingerprint-value
--gdn-prefill-backend --generation-config --gpu-memory-utilization|--device-memory-utilization --grpc-port
--h11-max-header-count --h11-max-incomplete-event-size --hf-config-path --hf-overrides --hf-token --host
--ignore-patterns --io-processor-plugin --ir-op-priority --jit-monitor-mode --kda-decode-backend --kda-prefill-backend
--kernel-config --kv-cache-dtype --kv-cache-dtype-skip-layers --kv-cache-memory-bytes --kv-cache-metrics-sample
--kv-events-config --kv-offloading-backend --kv-offloading-size --kv-transfer-config --limit-mm-per-prompt
--linear-backend --load-format --log-config-file --log-level --logging-config --logits-processors --logprobs-mode
--long-prefill-token-threshold --lora-dtype --lora-modules --lora-target-modules --mamba-backend --mamba-block-size
--mamba-cache-dtype --mamba-cache-mode --mamba-cache-philox-rounds --mamba-ssm-cache-dtype --mamba-ssu-algorithm
--master-addr --master-port --max-cpu-loras --max-cudagraph-capture-size --max-log-len --max-logprobs
--max-lora-cls-labels --max-lora-rank --max-loras --max-model-len --max-num-active-seqs --max-num-batched-tokens
--max-num-queued-reqs --max-num-queued-tokens --max-num-scheduled-tokens --max-num-seqs --max-parallel-loading-workers
--media-io-kwargs --middleware --mm-encoder-attn-backend --mm-encoder-attn-dtype --mm-encoder-fp8-scale-path
--mm-encoder-fp8-scale-save-margin --mm-encoder-fp8-scale-save-path --mm-encoder-tp-mode --mm-hasher-algorithm
--mm-ipc-gpu-memory-gb --mm-processor-cache-gb --mm-processor-cache-type --mm-processor-device --mm-processor-kwargs
--mm-shm-cache-max-object-size-mb --mm-tensor-ipc --model --model-class-overrides --model-impl
--model-loader-extra-config --moe-backend --nnodes|-n --node-rank|-r --num-gpu-blocks-override --numa-bind-cpus
--numa-bind-nodes --offload-backend --offload-group-size --offload-num-in-group --offload-params
--offload-prefetch-step --optimization-level --otlp-traces-endpoint --override-generation-config
--per-request-spec-decode-metrics --performance-mode --pipeline-parallel-size|-pp --pooler-config --port
--prefill-context-parallel-size|-pcp --prefill-schedule-interval --prefix-cache-retention-interval
--prefix-caching-hash-algo --prefix-match-unit --profiler-config --pt-load-map-location --quantization-config
--quantization|-q --reasoning-config --reasoning-parser --reasoning-parser-plugin --renderer-num-workers
--replayssm-buffer-len --response-role --revision --root-path --runner --safetensors-load-strategy
--safetensors-prefetch-block-size --safetensors-prefetch-num-threads --scheduler-cls --scheduling-policy --seed
--served-model-name --show-hidden-metrics-for-version --shutdown-timeout --sleep-preserve-parameter-names
--sparse-indexer-topk-backend --spec-method --spec-model --spec-tokens --speculative-config|-sc
--sse-keep-alive-interval --ssl-ca-certs --ssl-cert-reqs --ssl-certfile --ssl-ciphers --ssl-keyfile --stream-interval
--structured-outputs-config --tensor-parallel-size|-tp --tokenizer --tokenizer-mode --tokenizer-revision
--tool-call-parser --tool-parser-plugin --tool-server --tool-strict-level --ubatch-size --uds --uvicorn-log-level
--video-pruning-method --video-pruning-rate --watermark --watermark-config --weight-transfer-config --worker-cls
--worker-extension-cls
"""

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
--attention-backend --attn-cp-size --base-gpu-id --chat-template --chunked-prefill-size
--collect-tokens-histogram --completion-template --config --cpu-offload-gb --cuda-graph-backend-decode --cuda-graph-bs
--cuda-graph-bs-decode --cuda-graph-max-bs --cuda-graph-max-bs-decode --dcp-size --decode-attention-backend
--decode-log-interval --deepep-config --deepep-mode --detokenizer-worker-num --device --disaggregation-mode
--dist-timeout --download-dir --dtype --eplb-algorithm --fp4-gemm-backend
--fp8-gemm-backend --gpu-id-step --grammar-backend --hicache-io-backend --hicache-mem-layout --hicache-ratio
--hicache-size --hicache-storage-backend --hicache-write-policy --init-expert-location --json-model-override-args
--kt-cpuinfer --kt-method --kt-weight-path --load-balance-method --load-format --log-level --log-level-http
--lora-backend --lora-paths --mamba-ssm-dtype --mamba-full-memory-ratio --max-lora-rank --max-loras-per-batch
--max-mamba-cache-size --max-prefill-tokens --max-queued-requests --max-total-tokens 
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
