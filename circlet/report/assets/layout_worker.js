self.onmessage = ({ data }) => self.postMessage({ number: data.number, box: layout(data.box) });
