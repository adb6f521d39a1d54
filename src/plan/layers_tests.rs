use super::*;
use crate::cluster::facts::Layer;
use crate::container::ImageContent;

fn image(layers: &[(&str, u64)]) -> Image {
    let layer = |(id, size): &(&str, u64)| Layer { diff_id: format!("sha256:{id}"), size: *size };
    let layers: Vec<_> = layers.iter().map(layer).collect();
    Image {
        id: "sha256:i".to_owned(),
        references: Vec::new(),
        content: ImageContent("c".to_owned()),
        architecture: "arm64".to_owned(),
        size: layers.iter().map(|layer| layer.size).sum(),
        layers,
        entrypoint: Vec::new(),
        command: Vec::new(),
        env: std::collections::BTreeMap::new(),
        labels: std::collections::BTreeMap::new(),
        created: None,
        software: None,
    }
}

/// An image that a 20.10 made, and the folders in its own `docker save` of it.
#[test]
fn older_engines_name_layers_by_what_lies_below() {
    let made = image(&[
        ("6928182612b75db74e5bd8a40a082ed7753cffecd2d1235df41983bbc7f9961f", 1),
        ("3677f1512a1b746c96209bd034cbbdcdb61dccaa2b0cade54a0ccc77a07b7e2b", 1),
        ("dfa4880690108c50c77c0b44e324ae7d7ee3a5e9405cc132b8983b00af95839d", 1),
        ("b6db34351ceecac9ac8ac8e9b27d9c13d764a617f9d49a1b06371893afb06c40", 1),
    ]);
    assert_eq!(
        chain(&made),
        [
            "0eb6c49d9c272081bbad61b428923f5d23b6fe9cfee30d88dabbd38748188725",
            "f20acfd5e073618f492fbd51bffa5c61c503fb3770a41e107d7947f068da1a19",
            "ac95d80a76243dfe01baae91ad670b7d5c4fc2e24da9f627d21d0093a17a526e",
        ]
    );
}

#[test]
fn what_a_classic_store_has_from_the_bottom_stays_at_home() {
    let wanted = image(&[("a", 100), ("b", 20), ("c", 3)]);
    let others =
        [image(&[("a", 100)]), image(&[("a", 100), ("b", 20), ("x", 9)]), image(&[("c", 3), ("b", 20)])];
    let part = lacking(&wanted, Some(ImageStore::Classic), &others);
    assert_eq!((part.left_out, part.bytes, part.names.len()), (2, 3, 4));
    assert_eq!((part.names[0].as_str(), part.names[2].as_str()), ("blobs/sha256/a", "blobs/sha256/b"));
    // The same layers upon others are other layers.
    let moved = lacking(&wanted, Some(ImageStore::Classic), &others[2..]);
    assert_eq!((moved.left_out, moved.bytes), (0, 123));
}

#[test]
fn a_containerd_store_gets_all() {
    let wanted = image(&[("a", 100), ("b", 20)]);
    let part = lacking(&wanted, Some(ImageStore::Containerd), std::slice::from_ref(&wanted));
    assert_eq!(part, Part { left_out: 0, names: Vec::new(), bytes: 120 });
}

/// The archive has one file for both, or a link from the upper to the lower.
#[test]
fn a_layer_that_comes_again_further_up_travels() {
    let wanted = image(&[("a", 100), ("b", 20), ("a", 100), ("c", 3)]);
    let part = lacking(&wanted, Some(ImageStore::Classic), &[image(&[("a", 100), ("b", 20)])]);
    assert_eq!((part.left_out, part.bytes), (1, 203));
    assert_eq!(part.names[0], "blobs/sha256/b");
}

#[test]
fn an_image_with_another_configuration_alone_has_no_layer_to_bring() {
    let wanted = image(&[("a", 100), ("b", 20)]);
    let part = lacking(&wanted, Some(ImageStore::Classic), std::slice::from_ref(&wanted));
    // The highest layer's folder has a name that is of the configuration as well, before engine 25.
    assert_eq!((part.left_out, part.bytes, part.names.len()), (2, 0, 3));
}
