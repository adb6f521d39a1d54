use super::*;
#[test]
fn good() {
    for f in ["profiles/qwen35-122b.yaml", "examples/annotated.yaml"] {
        if let Err(e) = load(Path::new(f)) {
            panic!("{e}")
        }
    }
}
