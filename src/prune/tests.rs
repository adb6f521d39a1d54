use super::*;
use crate::prune::store::Removed;

#[test]
fn what_became_of_it_names_what_stays_and_why() {
    let item = |kind, name: &str, bytes| Item { kind, name: vec![name.to_owned()], bytes };
    let node: NodeName = "spark1".parse().unwrap();
    let removed = |item, why: Option<&str>| Removed { node: node.clone(), item, why: why.map(str::to_owned) };
    let told = result(
        &"qwen".parse().unwrap(),
        &[
            removed(item(Kind::Partial, "/m/.sparkctl/incoming", 2_000_000_000), None),
            removed(item(Kind::Image, "sparkctl/kept:a", 18_000_000_000), Some("conflict: it is used")),
        ],
    );
    assert_eq!(
        told,
        "  spark1: image sparkctl/kept:a stays: conflict: it is used\nqwen: removed 1 of 2 things, 2.0 GB\n"
    );
}
