//! What each engine refuses, and which of its flags a profile may not repeat.

use serde_json::json;

use super::*;
use crate::engine::{self, Reserved};
use crate::profile::EngineKind;

const VLLM: (&str, &str) = ("/engine/kind", r#""vllm""#);
const SGLANG: (&str, &str) = ("/engine/kind", r#""sglang""#);
const RAY: (&str, &str) = ("/engine/launch", r#""ray""#);
const NATIVE: (&str, &str) = ("/engine/launch", r#""native""#);
/// The profile at hand names a launch.
const NO_LAUNCH: (&str, &str) = ("/engine/launch", "null");
/// Every setting that has a flag only where it is set.
const SETTINGS: &[(&str, &str)] = &[
    ("/engine/expert_parallel", "true"),
    ("/engine/max_requests", "16"),
    ("/engine/quantization", r#""awq""#),
    ("/engine/kv_cache_type", r#""fp8_e4m3""#),
    ("/engine/prefix_caching", "false"),
    ("/engine/speculative", r#"{"method": "mtp", "tokens": 2}"#),
    ("/engine/trust_remote_code", "true"),
    ("/engine/chat_template", r#""/sparkctl/chat.jinja""#),
    ("/engine/lora", r#"{"adapters": [{"name": "sql", "path": "/model/sql"}], "max_rank": 32}"#),
    ("/engine/multimodal", r#"{"image": 4, "video": 0}"#),
];

/// The edits lead to the one problem.
#[track_caller]
fn refused(edits: &[(&str, &str)], path: &str, message: &str, hint: &str) {
    let problems = problems(edits);
    let [problem] = problems.as_slice() else { panic!("{edits:?}: {problems:?}") };
    assert_eq!(problem.path, path, "{edits:?}: {problem:?}");
    assert!(problem.message.contains(message), "{edits:?}: {}", problem.message);
    let said = problem.hint.as_deref().unwrap_or_default();
    assert!(said.contains(hint) && said.is_empty() == hint.is_empty(), "{edits:?}: {said}");
}

fn nodes(count: usize) -> (&'static str, String) {
    let node =
        |n| json!({ "name": format!("n{n}"), "host": format!("n{n}"), "fabric": format!("10.0.0.{n}") });
    ("/cluster/nodes", json!((1..=count).map(node).collect::<Vec<_>>()).to_string())
}

#[test]
fn both_engines_and_launches_are_known() {
    for edits in [
        vec![VLLM, RAY],
        vec![VLLM, NATIVE],
        vec![VLLM, NO_LAUNCH],
        vec![SGLANG, NATIVE],
        vec![SGLANG, NO_LAUNCH],
    ] {
        assert_eq!(problems(&edits), [], "{edits:?}");
        let all: Vec<_> = edits.iter().chain(SETTINGS).copied().collect();
        assert_eq!(problems(&all), [], "{all:?}");
    }
    refused(&[SGLANG, RAY], "engine.launch", "SGLang does not run on Ray", "write `native`, or leave it out");
}

/// Edits by reference, and more of them.
fn as_edits<'a>(owned: &'a [(&'static str, String)], more: &[(&'a str, &'a str)]) -> Vec<(&'a str, &'a str)> {
    owned.iter().map(|(path, value)| (*path, value.as_str())).chain(more.iter().copied()).collect()
}

#[test]
fn parts_are_as_many_as_nodes() {
    let sizes = |tensor, pipeline, data| {
        [
            ("/engine/tensor_parallel", format!("{tensor}")),
            ("/engine/pipeline_parallel", format!("{pipeline}")),
            ("/engine/data_parallel", format!("{data}")),
        ]
    };
    let of = |count, sizes: [(&'static str, String); 3]| -> Vec<_> {
        [nodes(count)].into_iter().chain(sizes).collect()
    };
    for (count, tensor, pipeline, data) in
        [(2, 1, 2, 1), (4, 2, 2, 1), (4, 2, 1, 2), (8, 2, 2, 2), (3, 1, 3, 1)]
    {
        let owned = of(count, sizes(tensor, pipeline, data));
        assert_eq!(problems(&as_edits(&owned, &[NATIVE])), [], "{owned:?}");
    }
    let tp = "engine.tensor_parallel";
    refused(
        &as_edits(&of(2, sizes(2, 2, 1)), &[]),
        tp,
        "`tensor_parallel` 2 times `pipeline_parallel` 2, together 4, is larger than the GPUs there are: 2 nodes",
        "make their product 2, or add nodes",
    );
    refused(
        &as_edits(&of(6, sizes(2, 1, 2)), &[NATIVE]),
        tp,
        "`tensor_parallel` 2 times `data_parallel` 2, together 4, would leave 2 nodes idle: 6 nodes",
        "make their product 6, or take 2 nodes out",
    );
    refused(&as_edits(&of(2, sizes(2, 0, 1)), &[]), "engine.pipeline_parallel", "at least 1", "");
    let huge = of(2, sizes(u32::MAX, u32::MAX, u32::MAX));
    assert_eq!(problems(&as_edits(&huge, &[NATIVE]))[0].path, tp);
    let dp = "engine.data_parallel";
    refused(&as_edits(&of(2, sizes(1, 1, 2)), &[RAY]), dp, "not on Ray", "write `launch: native`");
    refused(
        &as_edits(&of(2, sizes(1, 1, 2)), &[SGLANG, NATIVE]),
        dp,
        "SGLang has no copies",
        "`--enable-dp-attention`",
    );
}

#[test]
fn settings_that_an_engine_does_not_have() {
    let eagle = ("/engine/speculative", r#"{"method": "eagle3", "tokens": 2}"#);
    let at = "engine.speculative";
    for engine in [VLLM, SGLANG] {
        let needs = "the method `eagle3` of";
        refused(&[engine, NATIVE, eagle], at, needs, "set its `model` to a path");
        let drafted =
            ("/engine/speculative", r#"{"method": "eagle3", "tokens": 2, "model": "/model/draft"}"#);
        assert_eq!(problems(&[engine, NATIVE, drafted]), []);
    }
    let suffix = ("/engine/speculative", r#"{"method": "suffix", "tokens": 2}"#);
    assert_eq!(problems(&[suffix]), []);
    refused(
        &[SGLANG, NATIVE, suffix],
        "engine.speculative.method",
        "SGLang has no speculative method `suffix`",
        "`mtp`, `nextn`, `eagle`",
    );
    let none = ("/engine/speculative", r#"{"method": "mtp", "tokens": 0}"#);
    refused(&[none], "engine.speculative.tokens", "at least 1", "leave `speculative` out");
    let empty = ("/engine/speculative", r#"{"method": "", "tokens": 1}"#);
    refused(&[empty], "engine.speculative.method", "it is empty", "");
    let mtp = ("/engine/speculative", r#"{"method": "mtp", "tokens": 1}"#);
    let staged = [("/engine/tensor_parallel", "1"), ("/engine/pipeline_parallel", "2")];
    refused(
        &[SGLANG, NATIVE, mtp, staged[0], staged[1]],
        at,
        "no speculative decoding with `pipeline_parallel`",
        "leave one of the two out",
    );
    assert_eq!(problems(&[mtp, staged[0], staged[1]]), []);
    let fp8 = ("/engine/kv_cache_type", r#""fp8""#);
    assert_eq!(problems(&[fp8]), []);
    refused(&[SGLANG, NATIVE, fp8], "engine.kv_cache_type", "two of `fp8`", "write `fp8_e4m3` or `fp8_e5m2`");
    refused(&[("/engine/max_requests", "0")], "engine.max_requests", "at least 1", "leave it out");
    refused(&[("/engine/quantization", r#""--x""#)], "engine.quantization", "begins with `-`", "");
    refused(&[("/engine/chat_template", r#""a b""#)], "engine.chat_template", "white space", "");
}

#[test]
fn adapters() {
    let lora = |json: &'static str| ("/engine/lora", json);
    let at = "engine.lora.adapters[0].name";
    refused(&[lora(r#"{"adapters": []}"#)], "engine.lora.adapters", "no adapters", "leave `lora` out");
    refused(&[lora(r#"{"adapters": [{"name": "a=b", "path": "/a"}]}"#)], at, "`=` or `,`", "");
    refused(&[lora(r#"{"adapters": [{"name": "", "path": "/a"}]}"#)], at, "it is empty", "");
    let twice = lora(r#"{"adapters": [{"name": "a", "path": "/a"}, {"name": "a", "path": "/b"}]}"#);
    refused(&[twice], "engine.lora.adapters[1].name", "two adapters are called `a`", "");
    // vLLM has kernels for some ranks only.
    let odd = lora(r#"{"adapters": [{"name": "a", "path": "/a"}], "max_rank": 48}"#);
    refused(&[odd], "engine.lora", "no largest rank of 48", "write 64");
    assert_eq!(problems(&[SGLANG, NATIVE, odd]), []);
}

/// Each flag in every spelling that an engine takes.
#[test]
fn flags_that_sparkctl_sets() {
    for (kind, engine, launch) in [(EngineKind::Vllm, VLLM, RAY), (EngineKind::Sglang, SGLANG, NATIVE)] {
        let args = |list: serde_json::Value, settings: &[(&'static str, &'static str)]| {
            let list = list.to_string();
            let mut edits = vec![engine, launch, ("/engine/args", list.as_str())];
            edits.extend(settings);
            problems(&edits)
        };
        for Reserved { names, instead, is_set } in engine::engine(kind).reserved() {
            for name in *names {
                for arg in [(*name).to_owned(), format!("{name}=x"), format!("{name} x")] {
                    let problems = args(json!(["--seed", arg]), SETTINGS);
                    let [problem] = problems.as_slice() else { panic!("{arg}: {problems:?}") };
                    assert_eq!(problem.path, "engine.args[1]", "{arg}");
                    assert_eq!(problem.message, format!("sparkctl sets `{name}` itself"));
                    assert_eq!(problem.hint.as_deref(), Some(*instead), "{arg}");
                }
                // An argument that only adds is passed through.
                let plain = config::parse("x", GOOD).unwrap().engine;
                if !is_set(&plain) {
                    assert_eq!(args(json!([name, "x"]), &[]), [], "{name}");
                }
            }
        }
    }
    let list = |text: &'static str| ("/engine/args", text);
    let itself = |edits: &[(&str, &str)], flag: &str, hint: &str| {
        refused(edits, "engine.args[0]", &format!("sparkctl sets `{flag}` itself"), hint);
    };
    let tp = "set `engine.tensor_parallel`";
    itself(&[list(r#"["--tensor_parallel_size=2"]"#)], "--tensor_parallel_size", tp);
    itself(&[SGLANG, NATIVE, list(r#"["--tp", "2"]"#)], "--tp", tp);
    let mtp = ("/engine/speculative", r#"{"method": "mtp", "tokens": 1}"#);
    let key = "--speculative-config.method";
    itself(&[mtp, list(r#"["--speculative-config.method=mtp"]"#)], key, "set `engine.speculative`");
    // A flag of one engine is nothing to the other.
    assert_eq!(problems(&[SGLANG, NATIVE, list(r#"["--speculative-config", "x"]"#)]), []);
    assert_eq!(problems(&[SGLANG, NATIVE, list(r#"["--enable-dp-attention", "--dp-size", "2"]"#)]), []);
    refused(
        &[NATIVE, list(r#"["--api-server-count", "2"]"#)],
        "engine.args[0]",
        "nodes that have no endpoint",
        "leave it out",
    );
    assert_eq!(problems(&[RAY, list(r#"["--api-server-count", "2"]"#)]), []);
}

#[test]
fn arguments_with_spaces() {
    let path = "engine.args[0]";
    let two = |flag: &str, value: &str| format!("write two: `{flag}` and `{value}`");
    refused(
        &[("/engine/args", r#"["--max-num-batched-tokens 64"]"#)],
        path,
        "a space in it",
        &two("\"--max-num-batched-tokens\"", "\"64\""),
    );
    refused(
        &[("/engine/args", r#"["--speculative-config '{\"method\": \"mtp\"}'"]"#)],
        path,
        "a space in it",
        &two("'--speculative-config'", "'{\"method\": \"mtp\"}'"),
    );
    for value in [r#"{"method": "mtp", "num_speculative_tokens": 1}"#, "-1 -2", "a b", "- x"] {
        let list = json!(["--speculative-config", value]).to_string();
        assert_eq!(problems(&[("/engine/args", &list)]), [], "{value}");
    }
    refused(&[("/engine/args", r#"["a\u0000"]"#)], path, "NUL", "");
}

#[test]
fn ports_that_the_launch_needs() {
    let port = |number: &'static str| ("/serve/port", number);
    let another = "another port";
    refused(&[RAY, port("6379")], "serve.port", "the ranks meet at (Ray)", another);
    for number in ["29501", "29499"] {
        refused(&[NATIVE, port(number)], "serve.port", "the ranks meet at (native launch)", another);
        assert_eq!(problems(&[RAY, port(number)]), []);
    }
    assert_eq!(problems(&[NATIVE, port("6379")]), []);
    let alone = nodes(1);
    let edits = [("/engine/tensor_parallel", "1"), (alone.0, alone.1.as_str()), port("6379"), RAY];
    assert_eq!(problems(&edits), []);
}

#[test]
fn variables_are_those_of_the_engine() {
    let set = |name: &str| json!({ name: "x" }).to_string();
    for (name, ours, not_ours) in [
        ("SGLANG_HOST_IP", [SGLANG, NATIVE], [VLLM, RAY]),
        ("VLLM_HOST_IP", [VLLM, NATIVE], [SGLANG, NATIVE]),
        ("RAY_DEDUP_LOGS", [VLLM, RAY], [VLLM, NATIVE]),
    ] {
        let env = set(name);
        let path = format!("engine.env.{name}");
        let edits: Vec<_> = ours.into_iter().chain([("/engine/env", env.as_str())]).collect();
        refused(&edits, &path, &format!("sparkctl sets `{name}` itself"), "leave it out");
        let edits: Vec<_> = not_ours.into_iter().chain([("/engine/env", env.as_str())]).collect();
        assert_eq!(problems(&edits), [], "{name}");
    }
}
