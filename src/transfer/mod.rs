pub mod image;
pub mod weights;
