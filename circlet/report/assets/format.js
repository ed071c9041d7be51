// Numbers and names as people read them.

const NONE = "–";

function digits(value) {
  return value.toFixed(value >= 100 || Number.isInteger(value) ? 0 : value >= 10 ? 1 : 2);
}

function scaled(value, base, units) {
  if (value === null || value === undefined) return NONE;
  let unit = 0;
  let rest = value;
  while (Math.abs(rest) >= base && unit < units.length - 1) {
    rest /= base;
    unit += 1;
  }
  return `${digits(rest)} ${units[unit]}`.trimEnd();
}

export const bytes = (value) => scaled(value, 1024, ["B", "KiB", "MiB", "GiB", "TiB"]);
export const time = (us) => scaled(us, 1000, ["µs", "ms", "s"]);
export const count = (value) => scaled(value, 1000, ["", "K", "M", "G", "T"]);
export const whole = (value) => value.toLocaleString("en");

/** A part of a whole in per cent. */
export function share(part, all) {
  if (part === null || part === undefined || !all) return NONE;
  const percent = (100 * part) / all;
  return `${percent >= 10 || percent === 0 ? percent.toFixed(0) : percent.toFixed(1)} %`;
}

/** A difference in per cent, with its sign. */
export function change(before, after) {
  if (!before || after === null || after === undefined) return NONE;
  const percent = (100 * (after - before)) / before;
  return `${percent > 0 ? "+" : percent < 0 ? "−" : ""}${Math.abs(percent).toFixed(1)} %`;
}

/** Sizes with × between, "?" where they are known in a run only. */
export const shape = (sizes) => (sizes.length ? sizes.map((s) => s ?? "?").join("×") : "scalar");

export const type = (tensor) => `${tensor.dtype.toLowerCase()}[${shape(tensor.shape)}]`;

/** A text of at most so many letters, without some before its end, which tells names apart. */
export function shortened(text, most) {
  if (text.length <= most) return text;
  const end = Math.ceil((2 * (most - 1)) / 3);
  return `${text.slice(0, most - 1 - end)}…${text.slice(-end)}`;
}

/** The end of the first of the names that were joined, which tells it from its neighbours. */
export function ending(name, most) {
  const [first] = name.split(/[;+]/);
  return first.length <= most ? first : `…${first.slice(1 - most)}`;
}

export const plural = (number, noun) => `${whole(number)} ${noun}${number === 1 ? "" : "s"}`;
