//! Line plots as SVG: axes, ticks, lines, whiskers. Small on purpose. Pure.
//!
//! Lines differ by their dashes as well as by their colour, so that they can be told apart on paper and by everybody.
//! Colours are classes: the page has them, for light and for dark.

use std::fmt::Write;

use super::figure::digits;

/// Width and height of a plot, in units of its view box.
const SIZE: (f64, f64) = (640.0, 340.0);
/// Room for ticks and labels: left, top, right, bottom.
const ROOM: (f64, f64, f64, f64) = (64.0, 14.0, 20.0, 52.0);
/// Most lines of a plot; there are as many colours and dashes.
pub const MOST_LINES: usize = 6;

/// A plot.
#[derive(Debug, Clone, Default)]
pub struct Plot {
    pub title: String,
    /// What is seen in it, for those who do not see it.
    pub description: String,
    pub x: Axis,
    pub y: Axis,
    pub lines: Vec<Line>,
}

/// What an axis shows.
#[derive(Debug, Clone, Default)]
pub struct Axis {
    pub label: String,
    /// Each doubling has the same room.
    pub logarithmic: bool,
    /// Ticks; none: round numbers.
    pub ticks: Vec<f64>,
}

/// A line of a plot.
#[derive(Debug, Clone, Default)]
pub struct Line {
    pub name: String,
    pub points: Vec<(f64, f64)>,
    /// From where to where each point spreads; none, or as many as points.
    pub whiskers: Vec<(f64, f64)>,
    /// Points are marked.
    pub marks: bool,
}

/// Where values are on the page.
struct Scale {
    from: f64,
    to: f64,
    start: f64,
    end: f64,
    logarithmic: bool,
}

impl Scale {
    fn at(&self, value: f64) -> f64 {
        let of = |value: f64| if self.logarithmic { value.max(1e-12).log2() } else { value };
        let whole = of(self.to) - of(self.from);
        let part = if whole.abs() < 1e-300 { 0.5 } else { (of(value) - of(self.from)) / whole };
        self.start + part * (self.end - self.start)
    }
}

/// Text in SVG and HTML.
pub fn escaped(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c if c.is_control() && c != '\n' => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

/// The plot as an `svg` element; `id` is its own in the page.
pub fn svg(plot: &Plot, id: &str) -> String {
    let (width, height) = SIZE;
    let (left, top, right, bottom) = ROOM;
    let xs = || plot.lines.iter().flat_map(|line| &line.points).map(|point| point.0);
    let ys = || {
        let points = plot.lines.iter().flat_map(|line| &line.points).map(|point| point.1);
        points.chain(plot.lines.iter().flat_map(|line| &line.whiskers).map(|whisker| whisker.1))
    };
    let most = ys().fold(0.0, f64::max);
    let y_ticks = if plot.y.ticks.is_empty() { round_ticks(0.0, most, 5) } else { plot.y.ticks.clone() };
    let (first, last) = (xs().fold(f64::INFINITY, f64::min), xs().fold(f64::NEG_INFINITY, f64::max));
    let (first, last) = if first.is_finite() { (first, last) } else { (0.0, 1.0) };
    let from = if plot.x.logarithmic { first } else { first.min(0.0) };
    let x_ticks = if plot.x.ticks.is_empty() { round_ticks(from, last, 7) } else { plot.x.ticks.clone() };
    let x_end = if plot.x.ticks.is_empty() { x_ticks.iter().copied().fold(last, f64::max) } else { last };
    let x = Scale { from, to: x_end, start: left, end: width - right, logarithmic: plot.x.logarithmic };
    let y = Scale {
        from: 0.0,
        to: y_ticks.iter().copied().fold(most, f64::max),
        start: height - bottom,
        end: top,
        logarithmic: false,
    };
    let mut out = format!(
        "<svg viewBox=\"0 0 {width} {height}\" role=\"img\" aria-labelledby=\"{id}-t {id}-d\">\n\
         <title id=\"{id}-t\">{}</title>\n<desc id=\"{id}-d\">{}</desc>\n",
        escaped(&plot.title),
        escaped(&plot.description)
    );
    for tick in &y_ticks {
        let at = y.at(*tick);
        let _ = writeln!(
            out,
            "<line class=\"grid\" x1=\"{left}\" x2=\"{:.1}\" y1=\"{at:.1}\" y2=\"{at:.1}\"/><text class=\"tick\" x=\"{:.1}\" \
             y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            width - right,
            left - 8.0,
            at + 4.0,
            short(*tick)
        );
    }
    let mut free_from = f64::NEG_INFINITY;
    for tick in x_ticks {
        let (at, base, text) = (x.at(tick), height - bottom, short(tick));
        let _ = writeln!(
            out,
            "<line class=\"axis\" x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"{base}\" y2=\"{:.1}\"/>",
            base + 5.0
        );
        let half = super::noise::count(text.len()) * 3.7;
        // Ticks that would run into one another have no number.
        if at - half > free_from {
            let _ = writeln!(
                out,
                "<text class=\"tick\" x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{text}</text>",
                base + 19.0
            );
            free_from = at + half + 4.0;
        }
    }
    let _ = writeln!(
        out,
        "<line class=\"axis\" x1=\"{left}\" x2=\"{:.1}\" y1=\"{base}\" y2=\"{base}\"/>\n\
         <text class=\"label\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>\n\
         <text class=\"label\" transform=\"translate(15 {:.1}) rotate(-90)\" text-anchor=\"middle\">{}</text>",
        width - right,
        f64::midpoint(left, width - right),
        height - 12.0,
        escaped(&plot.x.label),
        f64::midpoint(top, height - bottom),
        escaped(&plot.y.label),
        base = height - bottom,
    );
    for (number, line) in plot.lines.iter().take(MOST_LINES).enumerate() {
        draw(&mut out, line, number, &x, &y);
    }
    out.push_str("</svg>\n");
    out
}

fn draw(out: &mut String, line: &Line, number: usize, x: &Scale, y: &Scale) {
    for (point, (low, high)) in line.points.iter().zip(&line.whiskers) {
        let at = x.at(point.0);
        let (low, high) = (y.at(*low), y.at(*high));
        let _ = writeln!(out, "<path class=\"whisker s{number}\" d=\"M{at:.1} {low:.1}V{high:.1}\"/>");
    }
    let path: Vec<_> =
        line.points.iter().map(|(px, py)| format!("{:.1} {:.1}", x.at(*px), y.at(*py))).collect();
    if !path.is_empty() {
        let _ = writeln!(out, "<path class=\"line s{number}\" d=\"M{}\"/>", path.join("L"));
    }
    if line.marks || line.points.len() == 1 {
        for (px, py) in &line.points {
            let _ = writeln!(
                out,
                "<circle class=\"mark s{number}\" cx=\"{:.1}\" cy=\"{:.1}\" r=\"3.5\"/>",
                x.at(*px),
                y.at(*py)
            );
        }
    }
}

/// The names of the lines, each with a piece of it.
pub fn legend(plot: &Plot) -> String {
    if plot.lines.len() < 2 {
        return String::new();
    }
    let items: Vec<_> = plot
        .lines
        .iter()
        .take(MOST_LINES)
        .enumerate()
        .map(|(number, line)| {
            format!(
                "<li><svg viewBox=\"0 0 30 10\" aria-hidden=\"true\"><path class=\"line s{number}\" d=\"M0 5H30\"/></svg>{}</li>",
                escaped(&line.name)
            )
        })
        .collect();
    format!("<ul class=\"legend\">{}</ul>\n", items.concat())
}

/// About so many round numbers from one to another.
fn round_ticks(from: f64, to: f64, about: u32) -> Vec<f64> {
    let whole = to - from;
    if !(whole.is_finite() && whole > 0.0) {
        return vec![from, from + 1.0];
    }
    let rough = whole / f64::from(about);
    let power = 10f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].into_iter().map(|of| of * power).find(|step| *step >= rough * 0.999);
    let step = step.unwrap_or(rough);
    let first = (from / step).floor();
    (0..100)
        .map(|number| (first + f64::from(number)) * step)
        .scan(false, |done, tick| {
            if *done {
                return None;
            }
            *done = tick >= to - step * 1e-9;
            Some(tick)
        })
        .collect()
}

/// A tick's number.
fn short(value: f64) -> String {
    let text = if value.abs() >= 10_000.0 { format!("{} k", digits(value / 1e3)) } else { digits(value) };
    // `10.0` of an axis is `10`, and `0.200` is `0.2`.
    match text.split_once(' ') {
        Some((number, unit)) => format!("{} {unit}", bare(number)),
        None => bare(&text).to_owned(),
    }
}

fn bare(number: &str) -> &str {
    if number.contains('.') { number.trim_end_matches('0').trim_end_matches('.') } else { number }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_reach_beyond_the_last_value() {
        assert_eq!(round_ticks(0.0, 81.0, 5), [0.0, 20.0, 40.0, 60.0, 80.0, 100.0]);
        assert_eq!(round_ticks(0.0, 0.3, 5).len(), 4);
        assert_eq!(round_ticks(0.0, 0.0, 5), [0.0, 1.0]);
        assert_eq!([0.2, 10.0, 100.0, 12_000.0].map(short), ["0.2", "10", "100", "12 k"]);
    }

    #[test]
    fn what_was_measured_is_text_and_not_markup() {
        let line = Line { name: "<b>&".to_owned(), points: vec![(1.0, 1.0)], ..Line::default() };
        let plot = Plot {
            title: "</title><script>alert(1)</script>".to_owned(),
            lines: vec![line.clone(), line],
            ..Plot::default()
        };
        let drawn = svg(&plot, "p") + &legend(&plot);
        assert!(!drawn.contains("<script") && !drawn.contains("<b>"), "{drawn}");
        assert!(drawn.contains("&lt;b&gt;&amp;"), "{drawn}");
    }

    /// Nothing measured, one point, all the same: no division by nothing reaches the page.
    #[test]
    fn plots_of_little_have_no_impossible_numbers() {
        for points in [vec![], vec![(4.0, 0.0)], vec![(1.0, 5.0), (1.0, 5.0)]] {
            for logarithmic in [false, true] {
                let plot = Plot {
                    x: Axis { logarithmic, ..Axis::default() },
                    lines: vec![Line { points: points.clone(), ..Line::default() }],
                    ..Plot::default()
                };
                let drawn = svg(&plot, "p");
                assert!(!drawn.contains("NaN") && !drawn.contains("inf"), "{points:?}: {drawn}");
            }
        }
    }
}
