// A browser gives no worker to a page that was opened from a folder, and without one the search never answers. There a
// hidden frame does the worker's work: the same script, the same messages.
if (location.protocol === "file:") {
  window.IFrameWorker = window.Worker = class extends EventTarget {
    constructor(script) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.documentElement.append(frame);
      const inside = frame.contentWindow;
      inside.document.open();
      inside.document.close();
      inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      inside.importScripts = (...scripts) =>
        scripts.reduce((before, each) => before.then(() => this.load(inside, each)), Promise.resolve());
      this.inside = inside;
      this.loaded = this.load(inside, script);
    }

    load(inside, script) {
      return new Promise((done, failed) => {
        const element = inside.document.createElement("script");
        element.src = script;
        element.onload = done;
        element.onerror = failed;
        inside.document.body.append(element);
      });
    }

    postMessage(data) {
      this.loaded.then(() => this.inside.dispatchEvent(new MessageEvent("message", { data })));
    }

    terminate() {
      this.inside.frameElement.remove();
    }
  };
}
