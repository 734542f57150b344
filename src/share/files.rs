//! Names of files in a joint file: planned models beside their layouts, given models by their hashes.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Component, Path, PathBuf};

use memc_layout::joint::Joint;
use memc_onnx_export::sha256;
use memc_onnx_proto::ModelFile;

use super::member::ShareMember;
use crate::error::Error;
use crate::share_error::ShareError;

/// Names the files of all members, relative to the folder of the joint file.
pub(super) fn name(
    joint: &mut Joint,
    members: &[ShareMember],
    path: &Path,
    stated: &BTreeMap<String, PathBuf>,
) -> Result<(), Error> {
    let folder = whole(path.parent().unwrap_or(Path::new("")))?;
    for (row, member) in joint.members.iter_mut().zip(members) {
        let model = member.model();
        let hashes = &member.layout.model;
        if !model.is_file() {
            let (name, folder) = (member.name.clone(), member.path.display().to_string());
            return Err(ShareError::NoModel { which: "planned", name, folder }.into());
        }
        let found = sha256(ModelFile::open(&model)?.bytes());
        if found != hashes.output_sha256 {
            return Err(ShareError::OtherModel {
                name: member.name.clone(),
                model: model.display().to_string(),
            }
            .into());
        }
        let given = given(member, stated.get(&member.name).map(PathBuf::as_path))?;
        row.given = relative(&folder, &given)?;
        row.given_sha256.clone_from(&hashes.input_sha256);
        row.model = relative(&folder, &model)?;
        row.model_sha256 = found;
        row.layout = relative(&folder, &member.path)?;
        row.layout_sha256 = sha256(member.text.as_bytes());
    }
    Ok(())
}

/// The model that was planned: the stated one, or one beside the layout with the hash that it names.
fn given(member: &ShareMember, stated: Option<&Path>) -> Result<PathBuf, Error> {
    let wanted = &member.layout.model.input_sha256;
    let is_it = |path: &Path| fs::read(path).is_ok_and(|bytes| sha256(&bytes) == *wanted);
    if let Some(path) = stated {
        let read = ModelFile::open(path)?;
        if sha256(read.bytes()) != *wanted {
            return Err(ShareError::OtherModel {
                name: member.name.clone(),
                model: path.display().to_string(),
            }
            .into());
        }
        return Ok(path.to_owned());
    }
    let folder =
        member.path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let unread = |source| Error::File { what: "read", path: folder.to_owned(), source };
    let entries = fs::read_dir(folder).map_err(unread)?.filter_map(Result::ok).map(|entry| entry.path());
    let is_model =
        |path: &PathBuf| path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("onnx"));
    let mut models: Vec<PathBuf> = entries.filter(is_model).collect();
    models.sort();
    models.into_iter().find(|path| is_it(path)).ok_or_else(|| {
        let (name, folder) = (member.name.clone(), member.path.display().to_string());
        ShareError::NoModel { which: "given", name, folder }.into()
    })
}

/// The path of a folder without links; that of the process for an empty one.
fn whole(folder: &Path) -> Result<PathBuf, Error> {
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    folder.canonicalize().map_err(|source| Error::File { what: "read", path: folder.to_owned(), source })
}

/// The path of a file from a folder, with slashes.
fn relative(folder: &Path, file: &Path) -> Result<String, Error> {
    let to =
        file.canonicalize().map_err(|source| Error::File { what: "read", path: file.to_owned(), source })?;
    let (from, parts): (Vec<Component<'_>>, Vec<Component<'_>>) =
        (folder.components().collect(), to.components().collect());
    let common = from.iter().zip(&parts).take_while(|(one, other)| one == other).count();
    let words = parts.get(common..).unwrap_or_default().iter().map(|part| part.as_os_str().to_str());
    let words: Option<Vec<&str>> =
        std::iter::repeat_n(Some(".."), from.len() - common).chain(words).collect();
    // Without a common root there is no relative path.
    words.filter(|_| common > 0).map(|words| words.join("/")).ok_or_else(|| {
        ShareError::NoPath { path: file.display().to_string(), folder: folder.display().to_string() }.into()
    })
}
