"use strict";
// The model of the page: orbit with a pointer or the arrow keys, four ways to look at it, and the cameras of the views.
(() => {
  const box = document.querySelector(".viewer"), canvas = box && box.querySelector("canvas");
  if (!canvas) return;
  const say = (text) => {
    const line = box.querySelector(".say");
    line.textContent = text;
    line.hidden = !text;
  };
  let renderer;
  try {
    renderer = new three.WebGLRenderer({ canvas, antialias: true, alpha: true });
  } catch (error) {
    canvas.remove();
    say("This browser draws no WebGL, so this is a picture of the model.");
    return;
  }
  const scene = new three.Scene();
  const camera = new three.PerspectiveCamera(35, 4 / 3, 0.01, 100);
  camera.up.fromArray(JSON.parse(box.dataset.up || "[0,1,0]"));
  const controls = new three.OrbitControls(camera, canvas);
  controls.enablePan = true;
  let pending = false;
  const draw = () => {
    pending = false;
    renderer.render(scene, camera);
    box.dataset.drawn = String(1 + Number(box.dataset.drawn || 0));
  };
  const redraw = () => {
    if (!pending) requestAnimationFrame(draw);
    pending = true;
  };
  const fit = () => {
    const width = box.clientWidth, height = box.clientHeight;
    renderer.setPixelRatio(Math.min(window.devicePixelRatio, 2));
    renderer.setSize(width, height, false);
    camera.aspect = width / height;
    camera.updateProjectionMatrix();
    redraw();
  };

  // A light that goes with the viewer, and an even one.
  const key = new three.DirectionalLight(0xffffff, 2.2), sky = new three.HemisphereLight(0xffffff, 0x8a8378, 1.5);
  key.position.set(-0.6, 0.8, 1);
  camera.add(key);
  scene.add(camera, sky);

  const meshes = [];
  const wires = [];
  const looks = {
    colours: (m) => new three.MeshBasicMaterial({ map: m.map, color: m.color, vertexColors: m.vertexColors, side: m.side, alphaTest: m.alphaTest }),
    lit: (m) => m,
    shape: (m) => new three.MeshStandardMaterial({ color: 0xb9b6b0, roughness: 0.85, side: m.side }),
    normals: (m) => new three.MeshNormalMaterial({ side: m.side }),
  };
  const look = (name) => {
    for (const mesh of meshes) mesh.material = mesh.userData.looks[name] ??= looks[name](mesh.userData.own);
    redraw();
  };
  const wire = (on) => {
    if (on && !wires.length) {
      for (const mesh of meshes) {
        const lines = new three.LineSegments(
          new three.WireframeGeometry(mesh.geometry),
          new three.LineBasicMaterial({ color: 0x888888, transparent: true, opacity: 0.55 }));
        mesh.add(lines);
        wires.push(lines);
        mesh.userData.own.polygonOffset = true;
      }
    }
    wires.forEach((lines) => (lines.visible = on));
    redraw();
  };

  // Cameras of the views as small pyramids.
  const views = JSON.parse(box.dataset.views || "[]");
  const marks = [];
  const mark = (view, size) => {
    const eye = new three.Vector3(...view.eye), ahead = new three.Vector3(...view.forward), up = new three.Vector3(...view.up);
    const side = new three.Vector3().crossVectors(ahead, up), half = size * Math.tan((view.fov * Math.PI) / 360);
    const corner = (x, y) => eye.clone().addScaledVector(ahead, size).addScaledVector(side, x * half).addScaledVector(up, y * half);
    const c = [corner(-1, -1), corner(1, -1), corner(1, 1), corner(-1, 1)];
    const points = c.flatMap((p, k) => [eye, p, p, c[(k + 1) % 4]]);
    const colour = new three.Color(view.heldout ? 0xc8702a : 0x2f6f9f);
    return new three.LineSegments(new three.BufferGeometry().setFromPoints(points), new three.LineBasicMaterial({ color: colour }));
  };
  const cameras = (on) => {
    marks.forEach((lines) => (lines.visible = on));
    if (on) {
      const ball = new three.Box3().setFromPoints(views.map((v) => new three.Vector3(...v.eye))).expandByPoint(controls.target).getBoundingSphere(new three.Sphere());
      if (camera.position.distanceTo(controls.target) < ball.radius * 2.5) place(ball.radius * 1.15);
    }
    redraw();
  };

  let home = null;
  let radius = 1;
  const place = (r) => {
    const tall = Math.min(1, camera.aspect);
    const distance = r / Math.sin((camera.fov * Math.PI) / 360) / tall;
    const away = camera.position.clone().sub(controls.target);
    camera.position.copy(controls.target).addScaledVector(away.normalize(), distance);
    camera.near = Math.max(distance - 20 * r, distance / 500);
    camera.far = distance + 20 * r;
    camera.updateProjectionMatrix();
    controls.update();
    redraw();
  };
  const reset = () => {
    controls.target.copy(home.target);
    camera.position.copy(home.position);
    place(radius * 1.02);
  };
  const from = (view) => {
    const away = new three.Vector3(...view.forward).negate();
    camera.position.copy(controls.target).add(away);
    place(radius * 1.02);
    box.scrollIntoView({ block: "center" });
  };
  const turn = (around, over) => {
    const up = camera.up, away = camera.position.clone().sub(controls.target);
    const side = new three.Vector3().crossVectors(up, away).normalize();
    away.applyAxisAngle(up, around);
    const angle = away.angleTo(up) - over;
    if (angle > 0.05 && angle < Math.PI - 0.05) away.applyAxisAngle(side.applyAxisAngle(up, around), -over);
    camera.position.copy(controls.target).add(away);
    controls.update();
    redraw();
  };
  const zoom = (factor) => {
    camera.position.sub(controls.target).multiplyScalar(factor).add(controls.target);
    controls.update();
    redraw();
  };
  const keys = {
    ArrowLeft: () => turn(-0.12, 0), ArrowRight: () => turn(0.12, 0), ArrowUp: () => turn(0, 0.12), ArrowDown: () => turn(0, -0.12),
    "+": () => zoom(0.9), "=": () => zoom(0.9), "-": () => zoom(1 / 0.9), Home: () => reset(),
  };
  canvas.addEventListener("keydown", (event) => {
    if (!keys[event.key] || event.ctrlKey || event.metaKey || event.altKey) return;
    keys[event.key]();
    event.preventDefault();
  });

  const bytes = Uint8Array.from(atob(document.getElementById("model").textContent), (c) => c.charCodeAt(0));
  new three.GLTFLoader().parse(bytes.buffer, "", (found) => {
    scene.add(found.scene);
    found.scene.traverse((node) => {
      if (!node.isMesh) return;
      node.userData.own = node.material;
      node.userData.own.polygonOffset = true;
      node.userData.own.polygonOffsetFactor = node.userData.own.polygonOffsetUnits = 1;
      node.userData.looks = {};
      meshes.push(node);
    });
    const ball = new three.Box3().setFromObject(found.scene).getBoundingSphere(new three.Sphere());
    radius = ball.radius || 1;
    const first = JSON.parse(box.dataset.from || "null");
    const away = first ? new three.Vector3(...first).negate() : new three.Vector3(0.5, 0.35, 1);
    home = { target: ball.center, position: ball.center.clone().add(away) };
    for (const view of views) {
      const lines = mark(view, 0.25 * radius);
      lines.visible = false;
      marks.push(lines);
      scene.add(lines);
    }
    fit();
    reset();
    look(box.dataset.look || "colours");
    box.querySelector(".poster")?.remove();
    say("");
    document.querySelectorAll(".needs-viewer").forEach((part) => (part.hidden = false));
    document.querySelectorAll("[name=look]").forEach((input) => input.addEventListener("change", () => look(input.value)));
    document.getElementById("wire")?.addEventListener("change", (event) => wire(event.target.checked));
    document.getElementById("cameras")?.addEventListener("change", (event) => cameras(event.target.checked));
    document.getElementById("reset")?.addEventListener("click", reset);
    document.querySelectorAll("[data-view]").forEach((button) => button.addEventListener("click", () => from(views[Number(button.dataset.view)])));
    controls.addEventListener("change", redraw);
    new ResizeObserver(fit).observe(box);
    box.dataset.ready = "yes";
  }, (error) => {
    canvas.remove();
    say("The model cannot be shown: " + (error && error.message ? error.message : error));
  });
})();
