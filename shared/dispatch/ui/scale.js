// Where instants stand on the picture, and which of them would cover each other.

const NEAR = 13;

/** Where each instant stands: to scale, or with every step wide enough to be seen. */
export function scaleOf(instants, left, right, steps) {
  const sorted = [...new Set(instants)].sort((a, b) => a - b);
  const first = sorted[0];
  const last = sorted.at(-1);
  if (last === first) return { at: () => (left + right) / 2, first, last, sorted };
  if (!steps)
    return {
      at: (t) => left + ((t - first) / (last - first)) * (right - left),
      first,
      last,
      sorted,
    };
  const places = [0];
  for (let n = 1; n < sorted.length; n += 1)
    places.push(places[n - 1] + 1 + Math.log1p((sorted[n] - sorted[n - 1]) / 1000));
  const whole = places.at(-1);
  const at = (t) => {
    let n = sorted.findIndex((one) => one >= t);
    if (n < 0) n = sorted.length - 1;
    if (n === 0 || sorted[n] === t) return left + (places[n] / whole) * (right - left);
    const part = (t - sorted[n - 1]) / (sorted[n] - sorted[n - 1]);
    return left + ((places[n - 1] + part * (places[n] - places[n - 1])) / whole) * (right - left);
  };
  return { at, first, last, sorted };
}

const NICE = [
  1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800,
  604800, 2592000,
];

/** Instants to write on the axis, so many pixels apart at least. */
export function ticksOf(scale, left, right, steps, apart = 92) {
  if (steps) {
    const kept = [];
    for (const one of scale.sorted) {
      if (!kept.length || scale.at(one) - scale.at(kept.at(-1)) >= apart) kept.push(one);
    }
    return kept;
  }
  const room = Math.max(1, Math.floor((right - left) / apart));
  const span = (scale.last - scale.first) / 1000;
  const every = (NICE.find((one) => span / one <= room) ?? 7776000) * 1000;
  const found = [];
  for (let t = Math.ceil(scale.first / every) * every; t <= scale.last; t += every) found.push(t);
  return found.length > 1 ? found : [scale.first, scale.last];
}

/** Marks of one lane that would cover each other, together. */
export function clusters(marks, scale) {
  const found = [];
  const last = new Map();
  for (const one of [...marks].sort((a, b) => Date.parse(a.at) - Date.parse(b.at))) {
    const x = scale.at(Date.parse(one.at));
    const before = last.get(one.lane);
    if (before && x - before.x < NEAR) before.marks.push(one);
    else {
      const made = { lane: one.lane, x, at: Date.parse(one.at), marks: [one] };
      last.set(one.lane, made);
      found.push(made);
    }
  }
  return found;
}
