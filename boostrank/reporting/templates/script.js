"use strict";
// Draws the charts, sorts and searches the tables, opens rows, switches the theme. It makes no requests.
(() => {
  const root = document.documentElement;
  const all = (selector, where = document) => [...where.querySelectorAll(selector)];

  const make = (name, properties = {}, ...children) => {
    const element = Object.assign(document.createElement(name), properties);
    element.append(...children);
    return element;
  };

  const save = (name, data, type) => {
    const url = URL.createObjectURL(data instanceof Blob ? data : new Blob([data], { type }));
    make("a", { href: url, download: name }).click();
    setTimeout(() => URL.revokeObjectURL(url), 10000);
  };

  const csv = (rows) => {
    const field = (value) => {
      const given = value === null || value === undefined ? "" : String(value);
      const formula = /^(?![+-][\d.e+-]*$)[=+\-@\t\r]/i.test(given); // to a spreadsheet
      const text = formula ? `'${given}` : given;
      return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
    };
    return rows.map((row) => row.map(field).join(",") + "\n").join("");
  };

  // ---- theme

  const prefersDark = matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : prefersDark.matches);
  const switcher = document.getElementById("theme");
  const themed = () => {
    switcher.textContent = isDark() ? "Light" : "Dark";
    switcher.setAttribute("aria-label", isDark() ? "Switch to light colours" : "Switch to dark colours");
    charts.forEach((chart) => chart.want());
  };
  switcher.hidden = false;
  switcher.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    themed();
  });
  prefersDark.addEventListener("change", themed);

  // ---- charts

  const block = document.getElementById("themes");
  const themes = block ? JSON.parse(block.textContent) : {};

  class Chart {
    constructor(figure) {
      this.figure = figure;
      this.plot = figure.querySelector(".plot");
      const kept = JSON.parse(figure.querySelector("script").textContent);
      this.name = kept.name;
      this.spec = kept.spec;
      this.rows = kept.spec.datasets[kept.numbers];
      this.drawn = null;
      this.wanted = true;
      this.menu();
      new ResizeObserver(() => this.fit()).observe(this.plot);
    }

    // What is folded has no width of its own; the page's is near it.
    room() {
      return Math.floor(this.plot.clientWidth || document.querySelector("main").clientWidth);
    }

    want() {
      this.wanted = true;
      queue();
    }

    seen() {
      const box = this.plot.getBoundingClientRect();
      return box.bottom > 0 && box.top < innerHeight;
    }

    async draw() {
      this.wanted = false;
      const config = structuredClone(themes[isDark() ? "dark" : "light"]);
      const spec = structuredClone(this.spec);
      const width = this.room();
      spec.width = width;
      if (width < 480) {
        config.axis.labelLimit = config.legend.labelLimit = 130;
        config.legend.columns = 2;
      }
      this.view?.finalize();
      // With `ast` expressions are interpreted: the page's policy lets no text become a program.
      const made = await window.vegaEmbed(this.plot, spec, {
        mode: "vega-lite", ast: true, actions: false, defaultStyle: false, config, renderer: "svg",
        tooltip: { disableDefaultStyle: true },
      });
      this.view = made.view;
      this.width = width;
      this.figure.dataset.drawn = "";
    }

    fit() {
      const width = this.room();
      if (this.view && this.plot.clientWidth && Math.abs(width - this.width) >= 1) {
        if ((width < 480) !== (this.width < 480)) return this.draw(); // labels have another limit
        this.width = width;
        return this.view.width(width).runAsync();
      }
    }

    // At once: paper does not wait.
    fitPaper() {
      this.width = 0;
      this.view?.width(345).run();
    }

    menu() {
      const take = (label, action) => {
        const button = make("button", { type: "button", textContent: label });
        button.addEventListener("click", action);
        button.setAttribute("aria-label", `${label} of ${this.figure.querySelector("h3").textContent}`);
        return button;
      };
      const names = Object.keys(this.rows[0] ?? {});
      this.figure.querySelector("figcaption").append(
        make(
          "details", { className: "take" },
          make("summary", { textContent: "Save" }),
          make(
            "div", {},
            take("SVG", async () => save(`${this.name}.svg`, await this.view.toSVG(), "image/svg+xml")),
            take("PNG", async () => {
              const canvas = await this.view.toCanvas(2);
              canvas.toBlob((blob) => save(`${this.name}.png`, blob));
            }),
            take("CSV", () => {
              save(`${this.name}.csv`, csv([names, ...this.rows.map((row) => names.map((n) => row[n]))]), "text/csv");
            }),
            take("JSON", () => save(`${this.name}.json`, JSON.stringify(this.rows, null, 1), "application/json")),
          ),
        ),
      );
    }
  }

  const shut = (but) => all(".take[open]").forEach((menu) => { menu.open = menu.contains(but); });
  addEventListener("click", (event) => shut(event.target));
  addEventListener("keydown", (event) => { if (event.key === "Escape") shut(null); });

  // One chart after the other, those in sight first; the page answers in between.
  let drawing = false;
  const queue = async () => {
    if (drawing) return;
    drawing = true;
    for (;;) {
      const waiting = charts.filter((chart) => chart.wanted);
      if (!waiting.length) break;
      await (waiting.find((chart) => chart.seen()) || waiting[0]).draw();
      await new Promise((resolve) => setTimeout(resolve));
    }
    drawing = false;
  };

  // ---- tables

  const numeric = (cell) => (cell.dataset.value === "" ? NaN : Number(cell.dataset.value ?? cell.textContent));
  const valueOf = (cell) => cell.dataset.value ?? cell.textContent;
  const words = new Intl.Collator(undefined, { numeric: true, sensitivity: "base" });

  for (const box of all(".table")) {
    const table = box.querySelector("table");
    const body = table.tBodies[0];
    const headings = [...table.tHead.rows[0].cells];
    // A row and, if it has one, the row of its details.
    const rows = [...body.rows].filter((row) => !row.matches(".detail")).map((row) => {
      const next = row.nextElementSibling;
      return [row, next && next.matches(".detail") ? next : null];
    });
    // Paper has the first ones, whatever the order.
    const printed = rows.filter(([row]) => !row.matches(".far")).length;

    const sort = (at, descending) => {
      const isNumber = headings[at].classList.contains("number");
      const sign = descending ? -1 : 1;
      const compare = (a, b) => {
        if (!isNumber) return sign * words.compare(valueOf(a[0].cells[at]), valueOf(b[0].cells[at]));
        const x = numeric(a[0].cells[at]);
        const y = numeric(b[0].cells[at]);
        if (isNaN(x) || isNaN(y)) return isNaN(x) - isNaN(y); // what is missing comes last, either way
        return sign * (x - y);
      };
      rows.sort(compare);
      body.append(...rows.flat().filter((row) => row));
      rows.forEach(([row], i) => row.classList.toggle("far", i >= printed));
      headings.forEach((heading, i) => {
        if (i === at) heading.setAttribute("aria-sort", descending ? "descending" : "ascending");
        else heading.removeAttribute("aria-sort");
      });
    };

    if (rows.length > 1) {
      headings.forEach((heading, at) => {
        const button = make("button", { type: "button" });
        button.append(...heading.childNodes);
        heading.append(button);
        button.addEventListener("click", () => {
          const now = heading.getAttribute("aria-sort");
          const largestFirst = heading.classList.contains("number");
          sort(at, now ? now === "ascending" : largestFirst);
        });
      });
    }

    for (const [row, detail] of rows) {
      if (!detail) continue;
      const button = make("button", { type: "button", className: "more" });
      button.append(...row.cells[0].childNodes);
      button.setAttribute("aria-expanded", "false");
      button.setAttribute("aria-controls", detail.id);
      button.addEventListener("click", () => {
        const open = detail.classList.toggle("open");
        button.setAttribute("aria-expanded", String(open));
      });
      row.cells[0].append(button);
    }

    const tools = make("div", { className: "tools" });
    if (box.hasAttribute("data-search")) {
      const field = make("input", { type: "search", autocomplete: "off", spellcheck: false });
      const count = make("output", { textContent: `${rows.length} rows` });
      field.addEventListener("input", () => {
        const wanted = field.value.trim().toLowerCase();
        let found = 0;
        for (const [row, detail] of rows) {
          const hit = row.textContent.toLowerCase().includes(wanted);
          row.hidden = !hit;
          if (detail) detail.hidden = !hit;
          found += hit;
        }
        count.textContent = wanted ? `${found} of ${rows.length} rows` : `${rows.length} rows`;
      });
      tools.append(make("label", {}, "Search ", field), count);
    }
    if (rows.length > 1 && !box.closest(".detail")) {
      const button = make("button", { type: "button", textContent: "CSV" });
      button.setAttribute("aria-label", "Save this table as CSV");
      button.addEventListener("click", () => {
        const named = headings.filter((heading) => heading.dataset.name);
        const lines = rows.map(([row]) => named.map((heading) => valueOf(row.cells[heading.cellIndex])));
        save(`${box.id}.csv`, csv([named.map((heading) => heading.dataset.name), ...lines]), "text/csv");
      });
      tools.append(button);
    }
    const hint = make("p", { className: "faint hint" });
    const scroller = box.querySelector(".scroll");
    scroller.before(hint);
    // Names the columns beyond the right edge.
    const seek = () => {
      const edge = scroller.getBoundingClientRect().right + 1;
      const beyond = headings.filter((heading) => heading.getBoundingClientRect().right > edge);
      const names = beyond.slice(0, 8).map((heading) => heading.textContent).join(", ");
      box.classList.toggle("cut", beyond.length > 0);
      hint.hidden = scroller.scrollWidth <= scroller.clientWidth + 1;
      hint.textContent = beyond.length ? `More columns to the right: ${names} →` : "← more columns to the left";
    };
    scroller.addEventListener("scroll", seek);
    new ResizeObserver(seek).observe(scroller);
    const searched = box.hasAttribute("data-search");
    if (tools.childNodes.length) box.insertBefore(tools, searched ? box.querySelector(".scroll") : null);
  }

  // ---- navigation: which section is read now

  const links = new Map(all("nav a").map((link) => [link.hash.slice(1), link]));
  if (links.size) {
    const inSight = new Set();
    const watcher = new IntersectionObserver((entries) => {
      for (const entry of entries) {
        if (entry.isIntersecting) inSight.add(entry.target.id);
        else inSight.delete(entry.target.id);
      }
      const now = [...links.keys()].find((name) => inSight.has(name));
      links.forEach((link, name) => {
        if (name === now) link.setAttribute("aria-current", "true");
        else link.removeAttribute("aria-current");
      });
    }, { rootMargin: "-10% 0px -60% 0px" });
    all("main > section").forEach((section) => watcher.observe(section));
  }

  // ---- print: two charts next to each other

  const fitting = (fit) => () => charts.forEach(fit);
  addEventListener("beforeprint", fitting((chart) => chart.fitPaper()));
  addEventListener("afterprint", fitting((chart) => chart.fit()));

  const charts = all("figure.chart").map((figure) => new Chart(figure));
  themed();
})();
