//! Tables for people: columns as wide as what stands in them, the flexible ones cut until a line fits.

use super::{text, words};
use crate::os::terminal;
use anstyle::Style;

/// Between two columns.
const GAP: usize = 2;

/// How many columns a line may take here. A wider terminal gets more of the long texts.
pub fn columns() -> usize {
    terminal::size().map_or(text::DEFAULT_COLUMNS, |size| size.columns.max(20))
}

/// One cell.
#[derive(Debug, Clone, Default)]
pub struct Cell {
    text: String,
    style: Style,
}

impl Cell {
    /// With a style.
    pub fn styled(text: impl AsRef<str>, style: Style) -> Self {
        Self { text: words::line(text.as_ref()), style }
    }
}

impl<T: AsRef<str>> From<T> for Cell {
    fn from(text: T) -> Self {
        Self::styled(text, Style::new())
    }
}

/// How a column behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Column {
    /// Never cut.
    Fixed(&'static str),
    /// The same, at the right of its column.
    Right(&'static str),
    /// Cut when the line is too long, not below so many columns.
    Cut(&'static str, usize),
}

impl Column {
    fn title(self) -> &'static str {
        match self {
            Self::Fixed(title) | Self::Right(title) | Self::Cut(title, _) => title,
        }
    }
    fn least(self, natural: usize) -> usize {
        match self {
            Self::Fixed(_) | Self::Right(_) => natural,
            Self::Cut(title, least) => least.max(title.len()).min(natural),
        }
    }
}

/// A table.
pub struct Table {
    columns: Vec<Column>,
    rows: Vec<Vec<Cell>>,
    indent: usize,
}

impl Table {
    /// An empty one.
    pub fn new(columns: &[Column]) -> Self {
        Self { columns: columns.to_vec(), rows: Vec::new(), indent: 0 }
    }
    /// The same, moved to the right.
    pub fn indented(mut self, by: usize) -> Self {
        self.indent = by;
        self
    }
    /// Adds a row; one cell for each column.
    pub fn row(&mut self, cells: impl IntoIterator<Item = Cell>) {
        self.rows.push(cells.into_iter().collect());
    }
    /// Whether it has no rows.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The lines, no longer than `total` columns as far as the flexible columns allow it. A column in
    /// which nothing stands is left out.
    pub fn render(&self, total: usize) -> Vec<String> {
        let used: Vec<usize> = (0..self.columns.len())
            .filter(|&i| self.rows.iter().any(|row| row.get(i).is_some_and(|cell| !cell.text.is_empty())))
            .collect();
        let widths = self.widths(&used, total);
        let dim = Style::new().dimmed();
        let titles: Vec<Cell> = self.columns.iter().map(|c| Cell::styled(c.title(), dim)).collect();
        let mut lines = vec![self.line(&titles, &used, &widths)];
        lines.extend(self.rows.iter().map(|row| self.line(row, &used, &widths)));
        lines
    }

    fn widths(&self, used: &[usize], total: usize) -> Vec<usize> {
        let natural = |i: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(i)).map(|cell| text::width(&cell.text));
            cells.chain([self.columns[i].title().len()]).max().unwrap_or(0)
        };
        let mut widths: Vec<usize> = used.iter().map(|&i| natural(i)).collect();
        let least: Vec<usize> = used.iter().zip(&widths).map(|(&i, &w)| self.columns[i].least(w)).collect();
        let room = total.saturating_sub(self.indent + GAP * used.len().saturating_sub(1));
        while widths.iter().sum::<usize>() > room {
            // The longest gives way first.
            let longest = (0..widths.len()).filter(|&i| widths[i] > least[i]).max_by_key(|&i| widths[i]);
            let Some(longest) = longest else { break };
            widths[longest] -= 1;
        }
        widths
    }

    fn line(&self, cells: &[Cell], used: &[usize], widths: &[usize]) -> String {
        let mut line = " ".repeat(self.indent);
        for (n, (&i, &width)) in used.iter().zip(widths).enumerate() {
            let empty = Cell::default();
            let cell = cells.get(i).unwrap_or(&empty);
            let shown = text::fit(&cell.text, width);
            let space = " ".repeat(width.saturating_sub(text::width(&shown)));
            let style = cell.style;
            let shown = if shown.is_empty() { String::new() } else { format!("{style}{shown}{style:#}") };
            let last = n + 1 == used.len();
            match self.columns[i] {
                Column::Right(_) => line.extend([space.as_str(), &shown]),
                Column::Fixed(_) | Column::Cut(..) if last => line.push_str(&shown),
                Column::Fixed(_) | Column::Cut(..) => line.extend([shown.as_str(), &space]),
            }
            if !last {
                line.push_str(&" ".repeat(GAP));
            }
        }
        line.truncate(line.trim_end().len());
        line
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(rows: &[[&str; 4]]) -> Table {
        let mut table = Table::new(&[
            Column::Fixed("NAME"),
            Column::Right("N"),
            Column::Cut("WHAT", 6),
            Column::Fixed("X"),
        ]);
        for row in rows {
            table.row(row.map(Cell::from));
        }
        table
    }

    fn plain(lines: Vec<String>) -> Vec<String> {
        lines.iter().map(|line| anstream::adapter::strip_str(line).to_string()).collect()
    }

    #[test]
    fn only_flexible_columns_are_cut_and_empty_ones_left_out() {
        let table = table(&[["änna", "1", "reads\na long text", ""], ["漢字", "12345", "", ""]]);
        assert_eq!(
            plain(table.render(80)),
            ["NAME      N  WHAT", "änna      1  reads a long text", "漢字  12345"]
        );
        assert_eq!(plain(table.render(22)), ["NAME      N  WHAT", "änna      1  reads a …", "漢字  12345"]);
        assert_eq!(plain(table.render(3))[1], "änna      1  reads…");
    }
}
