//! Plots of curves.

use std::path::Path;

use plotters::prelude::*;

/// Lines over one pair of axes.
#[derive(Debug, Clone)]
pub struct Plot {
    /// Part of the file's name.
    pub name: &'static str,
    /// Title.
    pub title: String,
    /// Label of the horizontal axis.
    pub x: &'static str,
    /// Label of the vertical axis.
    pub y: &'static str,
    /// Name and points of each line.
    pub lines: Vec<(String, Vec<(f64, f64)>)>,
}

const SIZE: (u32, u32) = (800, 450);

impl Plot {
    /// Writes the plot as SVG.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn draw(&self, path: &Path) -> anyhow::Result<()> {
        self.try_draw(path).map_err(|error| anyhow::anyhow!("cannot draw {}: {error}", path.display()))
    }

    fn try_draw(&self, path: &Path) -> Result<(), Box<dyn std::error::Error + '_>> {
        let points = || self.lines.iter().flat_map(|(_, points)| points.iter());
        // Axes begin at zero, so that ratios are visible.
        let x_end = points().map(|point| point.0).fold(f64::EPSILON, f64::max);
        let y_end = points().map(|point| point.1).fold(f64::EPSILON, f64::max) * 1.05;
        let root = SVGBackend::new(path, SIZE).into_drawing_area();
        root.fill(&WHITE)?;
        let mut chart = ChartBuilder::on(&root)
            .caption(&self.title, ("sans-serif", 18))
            .margin(12)
            .x_label_area_size(40)
            .y_label_area_size(70)
            .build_cartesian_2d(0.0..x_end, 0.0..y_end)?;
        chart.configure_mesh().x_desc(self.x).y_desc(self.y).light_line_style(WHITE).draw()?;
        for (number, (name, points)) in self.lines.iter().enumerate() {
            let color = Palette99::pick(number).to_rgba();
            let line = chart.draw_series(LineSeries::new(points.iter().copied(), color.stroke_width(2)))?;
            line.label(name).legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], color.stroke_width(2)));
        }
        chart.configure_series_labels().background_style(WHITE.mix(0.8)).border_style(BLACK.mix(0.3)).draw()?;
        root.present()?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plot_names_its_lines() {
        let dir = std::env::temp_dir().join(format!("gimbal-plot-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let lines = vec![("ours".to_owned(), vec![(0.0, 1.0), (2.0, 3.0)]), ("raw".to_owned(), vec![(0.0, 2.0)])];
        let plot = Plot { name: "x", title: "Title".into(), x: "seconds", y: "writes", lines };
        let path = dir.join("x.svg");
        plot.draw(&path).unwrap();
        let svg = std::fs::read_to_string(&path).unwrap();
        std::fs::remove_dir_all(&dir).unwrap();
        for text in ["Title", "seconds", "writes", "ours", "raw"] {
            assert!(svg.contains(text), "{text} is missing");
        }
    }
}
