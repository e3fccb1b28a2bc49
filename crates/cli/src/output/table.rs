//! Plain tables: columns separated by two blanks, the last one as long as it likes.

/// The rows as lines, columns aligned; blanks at line ends are left out.
#[must_use]
pub fn table<const N: usize>(rows: &[[String; N]]) -> Vec<String> {
    let mut widths = [0; N];
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    rows.iter()
        .map(|row| {
            let cells = row.iter().zip(widths).map(|(cell, width)| format!("{cell:<width$}"));
            cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up_by_characters() {
        let rows = [["a", "übung", "x"], ["bcd", "y", ""]].map(|row| row.map(str::to_owned));
        assert_eq!(table(&rows), ["a    übung  x", "bcd  y"]);
    }
}
