//! The plan against a model of the API server: golden texts and properties.

#[cfg(test)]
mod accepted;
#[cfg(test)]
mod around;
#[cfg(test)]
mod edits;
#[cfg(test)]
mod golden;
#[cfg(test)]
mod limit;
#[cfg(test)]
mod lost;
#[cfg(test)]
mod observed;
#[cfg(test)]
mod properties;
#[cfg(test)]
mod render;
#[cfg(test)]
mod server;
#[cfg(test)]
mod wanted;
#[cfg(test)]
mod world;
