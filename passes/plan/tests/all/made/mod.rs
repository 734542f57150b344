//! Random modules: any graph of many kinds of nodes, and nets with a forward and a backward half.
#![allow(dead_code, clippy::unwrap_used)]

/// Writes one random module as text, so that a failure prints a possible file test.
struct Writer {
    numbers: Vec<u64>,
    next: usize,
    lines: Vec<String>,
    /// Values with their shapes.
    values: Vec<(String, Vec<u64>)>,
    nodes: usize,
}

impl Writer {
    fn below(&mut self, limit: usize) -> usize {
        let number = self.numbers.get(self.next).copied().unwrap_or(0);
        self.next += 1;
        (number % limit as u64) as usize
    }

    fn pick(&mut self) -> (String, Vec<u64>) {
        // Prefer late values: this makes graphs deep.
        let at = self.values.len() - 1 - self.below(self.values.len().min(5));
        self.values[at].clone()
    }

    fn push(&mut self, right: &str, shape: Vec<u64>) {
        let name = format!("v{}", self.nodes);
        self.lines.push(format!("%{name} = {right} : {}", show(&shape)));
        self.values.push((name, shape));
        self.nodes += 1;
    }

    fn constant(&mut self, numbers: &[u64]) -> String {
        let name = format!("k{}", self.lines.len());
        self.lines.insert(0, format!("const %{name} : i64[{}] = {numbers:?}", numbers.len()));
        name
    }

    fn node(&mut self) {
        let (x, shape) = self.pick();
        let count: u64 = shape.iter().product();
        match self.below(9) {
            0 => {
                let operator = ["Relu", "Exp", "Tanh"][self.below(3)];
                self.push(&format!("{operator}(%{x})"), shape);
            }
            1 => self.push(&format!("Softmax(%{x}) {{axis = 0}}"), shape),
            2 => {
                let with = self
                    .values
                    .iter()
                    .rev()
                    .find(|(name, other)| *other == shape && *name != x)
                    .map(|(name, _)| name.clone());
                let with = with.unwrap_or_else(|| x.clone());
                self.push(&format!("Mul(%{x}, %{with})"), shape);
            }
            3 => {
                let to = self.constant(&[count]);
                self.push(&format!("Reshape(%{x}, %{to}) {{allowzero = 1}}"), vec![count]);
            }
            4 => {
                let to = self.constant(&[2, count]);
                let (x, shape) = if shape.len() == 1 { (x, shape) } else { self.flat(&x, count) };
                self.push(&format!("Expand(%{x}, %{to})"), vec![2, shape[0]]);
            }
            5 if shape.len() == 2 => {
                let axis = self.constant(&[0]);
                self.push(&format!("ReduceMax(%{x}, %{axis}) {{keepdims = 0}}"), vec![shape[1]]);
            }
            6 => {
                let (y, other) = self.pick();
                if shape.len() == 1 && other.len() == 1 {
                    self.push(&format!("Concat(%{x}, %{y}) {{axis = 0}}"), vec![shape[0] + other[0]]);
                } else {
                    self.push(&format!("Identity(%{x})"), shape);
                }
            }
            7 => {
                let (y, _) = self.pick();
                let body = |operator: &str, of: &str| {
                    format!(
                        "{{\n  %inner = {operator}(%{of}) : unknown\n  %sum = Mul(%inner, %{x}) : unknown\n  return %sum\n}}"
                    )
                };
                // Both branches give the shape of %x: %y is captured if it also has that shape.
                let y = if self.values.iter().any(|(name, other)| *name == y && *other == shape) {
                    y
                } else {
                    x.clone()
                };
                let (then, other) = (body("Exp", &y), body("Neg", &x));
                let right = format!(
                    "If(%flag) {{then_branch = graph @then {then}, else_branch = graph @else {other}}}"
                );
                self.push(&right, shape);
            }
            _ => self.push(&format!("Sqrt(%{x})"), shape),
        }
    }

    fn flat(&mut self, x: &str, count: u64) -> (String, Vec<u64>) {
        let to = self.constant(&[count]);
        self.push(&format!("Reshape(%{x}, %{to}) {{allowzero = 1}}"), vec![count]);
        self.values.last().unwrap().clone()
    }
}

fn show(shape: &[u64]) -> String {
    let extents: Vec<String> = shape.iter().map(u64::to_string).collect();
    format!("f32[{}]", extents.join(","))
}

/// Returns a module with at least `nodes` nodes.
pub fn module_text(numbers: Vec<u64>, nodes: usize) -> String {
    let mut writer = Writer { numbers, next: 0, lines: Vec::new(), values: Vec::new(), nodes: 0 };
    let sizes = [16, 48, 5, 0, 64];
    let extent = sizes[writer.below(sizes.len())];
    writer.values = vec![("x".to_owned(), vec![extent]), ("z".to_owned(), vec![32])];
    while writer.nodes < nodes {
        writer.node();
    }
    let mut outputs: Vec<String> = Vec::new();
    for _ in 0..=writer.below(3) {
        let (name, _) = writer.pick();
        if name.starts_with('v') && !outputs.contains(&name) {
            outputs.push(name);
        }
    }
    let outputs: Vec<String> = outputs.iter().map(|name| format!("%{name}")).collect();
    format!(
        "opset \"\" 21\ngraph @random {{\ninput %flag : bool[]\ninput %x : f32[{extent}]\ninput %z : f32[32]\n{}\nreturn {}\n}}\n",
        writer.lines.join("\n"),
        outputs.join(", ")
    )
}

/// Returns a net with a forward and a backward half: each layer's result is read again in reverse order,
/// with a reduction between the halves.
pub fn net(extents: &[u64], kinds: &[usize]) -> String {
    let mut lines = vec!["const %axis : i64[1] = [0]".to_owned()];
    let mut last = "x".to_owned();
    for (layer, kind) in kinds.iter().enumerate() {
        let extent = extents[layer % extents.len()];
        let shape = format!("f32[{extent},16]");
        lines.push(format!("const %to{layer} : i64[2] = [{extent}, 16]"));
        lines.push(format!("%m{layer} = ReduceMax(%{last}, %axis) {{keepdims = 0}} : f32[16]"));
        lines.push(format!("%e{layer} = Expand(%m{layer}, %to{layer}) : {shape}"));
        let right = match kind % 5 {
            0 => format!("Exp(%e{layer})"),
            1 => format!("Softmax(%e{layer}) {{axis = 1}}"),
            2 => format!("RandomNormalLike(%e{layer})"),
            3 => format!("Mul(%e{layer}, %e{layer})"),
            _ => format!("Identity(%e{layer})"),
        };
        lines.push(format!("%h{layer} = {right} : {shape}"));
        last = format!("h{layer}");
    }
    lines.push(format!("%g{} = ReduceMin(%{last}, %axis) {{keepdims = 0}} : f32[16]", kinds.len()));
    for layer in (0..kinds.len()).rev() {
        let shape = format!("f32[{},16]", extents[layer % extents.len()]);
        lines.push(format!("%b{layer} = Mul(%h{layer}, %g{}) : {shape}", layer + 1));
        lines.push(format!("%g{layer} = ReduceMax(%b{layer}, %axis) {{keepdims = 0}} : f32[16]"));
    }
    format!("opset \"\" 21\ngraph @net {{\ninput %x : f32[4,16]\n{}\nreturn %g0, %m1\n}}\n", lines.join("\n"))
}
