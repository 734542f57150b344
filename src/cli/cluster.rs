//! Files that state the devices of `memc split`: their number, budgets, links and machine.

use std::path::Path;

use memc::{DevicePath, Size};

use super::{Failure, usage};

/// Devices as a file states them.
#[derive(Debug, Default)]
pub struct Cluster {
    /// Number of devices.
    pub devices: usize,
    /// Machine of each device.
    pub target: Option<String>,
    /// Limits of bytes.
    pub budgets: Vec<Size>,
    /// Links between devices.
    pub links: Vec<DevicePath>,
}

/// Reads a cluster; `None` if the text states no `devices`, as the file of a single machine.
///
/// # Errors
/// A key is unknown, or its value is of another kind.
pub fn parse(path: &Path, text: &str) -> Result<Option<Cluster>, Failure> {
    let Ok(table) = text.parse::<toml::Table>() else { return Ok(None) };
    if !table.contains_key("devices") {
        return Ok(None);
    }
    let wrong = |what: String| {
        let help = "write `devices = 2`, `target = \"cpu\"`, `budgets = [\"2GiB\", \"1GiB\"]`, `links = [\"d0-d1=10GB/s,20us\"]`";
        usage(format!("{}: {what}", path.display()), help)
    };
    let mut cluster = Cluster::default();
    for (key, value) in &table {
        let words = || -> Result<Vec<&str>, Failure> {
            let items = value
                .as_array()
                .and_then(|items| items.iter().map(toml::Value::as_str).collect::<Option<Vec<&str>>>());
            items.ok_or_else(|| wrong(format!("`{key}` is not a list of texts")))
        };
        match key.as_str() {
            "devices" => {
                let count = value.as_integer().and_then(|count| usize::try_from(count).ok());
                cluster.devices =
                    count.ok_or_else(|| wrong(format!("`{key}` is not a number of devices")))?;
            }
            "target" => {
                let name =
                    value.as_str().ok_or_else(|| wrong(format!("`{key}` is not the name of a machine")))?;
                // A file lies beside that of the cluster.
                let is_file = Path::new(name).extension().is_some_and(|extension| extension == "toml");
                let beside = path.with_file_name(name).to_string_lossy().into_owned();
                cluster.target = Some(if is_file { beside } else { name.to_owned() });
            }
            "budgets" => {
                for text in words()? {
                    cluster.budgets.push(text.parse().map_err(|error| wrong(format!("{error}")))?);
                }
            }
            "links" => {
                for text in words()? {
                    cluster.links.push(text.parse().map_err(|error| wrong(format!("{error}")))?);
                }
            }
            _ => return Err(wrong(format!("`{key}` is not a key of a cluster"))),
        }
    }
    Ok(Some(cluster))
}
